"""A vocabulary map for CTranslate2: the target units that a sentence may be translated to, by its source units.

    python vocabulary_map.py SOURCE TARGET OUTPUT

SOURCE and TARGET are parallel texts of units separated by spaces. For every source unit the map has the likeliest
target units by IBM Model 1 (Brown et al. 1993) after five iterations of EM, and for every sentence the most frequent
ones.
"""

import sys
from collections import Counter
from pathlib import Path

import numpy as np

ITERATIONS = 5
LIKELIEST = 30  # target units of a source unit
FREQUENT = 100  # target units that every sentence may use


def read_units(path: Path) -> tuple[list[list[int]], list[str]]:
    """The lines as numbers of units, and the units by number, the most frequent first."""
    lines = [line.split() for line in path.read_text("utf-8").splitlines()]
    units = [unit for unit, _ in Counter(unit for line in lines for unit in line).most_common()]
    numbers = {unit: number for number, unit in enumerate(units)}
    return [[numbers[unit] for unit in line] for line in lines], units


def lexical_probabilities(
    sources: list[list[int]], targets: list[list[int]], target_units: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p(target unit | source unit) by IBM Model 1 without an empty word, for the pairs of units that occur together:
    source units, target units, probabilities."""
    links, positions, position = [], [], 0
    for source, target in zip(sources, targets, strict=True):
        pairs = np.add.outer(np.array(target, np.int64), np.array(source, np.int64) * target_units)  # (target, source)
        links.append(pairs.ravel())
        positions.append(np.repeat(np.arange(position, position + len(target)), len(source)))
        position += len(target)
    pairs, link_pair = np.unique(np.concatenate(links), return_inverse=True)
    link_position = np.concatenate(positions)
    source_of_pair, target_of_pair = np.divmod(pairs, target_units)
    probability = np.ones(len(pairs))
    for _ in range(ITERATIONS):
        weight = probability[link_pair]
        weight /= np.bincount(link_position, weight)[link_position]
        count = np.bincount(link_pair, weight)
        probability = count / np.bincount(source_of_pair, count)[source_of_pair]
    return source_of_pair, target_of_pair, probability


def main(source: Path, target: Path, output: Path) -> None:
    sources, source_units = read_units(source)
    targets, target_units = read_units(target)
    of_source, of_target, probability = lexical_probabilities(sources, targets, len(target_units))
    order = np.lexsort((-probability, of_source))
    begins = np.searchsorted(of_source[order], np.arange(len(source_units) + 1))
    lines = [f"\t{' '.join(target_units[:FREQUENT])}\n"]  # the line without a source unit is for all sentences
    for number, unit in enumerate(source_units):
        likeliest = of_target[order[begins[number] : begins[number + 1]][:LIKELIEST]]
        lines.append(f"{unit}\t{' '.join(target_units[other] for other in likeliest)}\n")
    output.write_text("".join(lines), "utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
