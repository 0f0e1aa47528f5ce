"""Aligns words with eflomal or fast_align; runs in the environment that aligners.sh makes.

    python align_words.py eflomal|fast_align SOURCE TARGET FIRST

SOURCE and TARGET are files with words between spaces, line i of one a translation of line i of the other. The aligner
is trained on all lines; the links of the first FIRST are printed, a line of JSON with the links of both directions,
[[source word, target word], ...] counted from 0: the first links a target word with at most one source word.
"""

import json
import math
import sys
import tempfile
from pathlib import Path

NULL = 1  # fast_align's id of the empty word; ids count the words of its table from 1
TENSION = 4.0  # with which systran-align 3.5.0 aligns, whatever it has learned
NULL_PROBABILITY = 0.08
MISSING = 1e-9  # probability of a pair of words that is not in the table
TOLERATED = 0.001  # share of its links by which ours may differ: equal probabilities are rounded differently


def eflomal(source, target, first):
    """Links of both directions. eflomal draws its samples with a seed from the system: each run differs."""
    from eflomal import Aligner

    with tempfile.TemporaryDirectory() as folder:
        forward, backward = (str(Path(folder) / name) for name in ("forward", "backward"))
        with source.open(encoding="utf-8") as s, target.open(encoding="utf-8") as t:
            Aligner().align(s, t, links_filename_fwd=forward, links_filename_rev=backward)
        return [
            [
                [[int(n) for n in link.split("-")] for link in line.split()]
                for line in Path(name).read_text().split("\n")
            ]
            for name in (forward, backward)
        ]


def fast_align(source, target, first):
    """Links of both directions, with the options that its authors recommend (-d -o -v).

    systran-align prints both directions combined only. Each is computed here from its tables, by equation 1 of Dyer et
    al. (2013), and compared with what it prints: that has the links of both, and no others than those of either.
    """
    import systran_align

    pairs = [read_words(file) for file in (source, target)]
    with tempfile.TemporaryDirectory() as folder:
        together, forward, backward = (str(Path(folder) / name) for name in ("pairs", "forward", "backward"))
        Path(together).write_text(
            "".join(f"{' '.join(s)} ||| {' '.join(t)}\n" for s, t in zip(*pairs, strict=True)), encoding="utf-8"
        )
        systran_align.generate_alignment_probabilities(
            together, forward, backward, favor_diagonal=True, optimize_tension=True, variational_bayes=True
        )
        sources, targets = (side[:first] for side in pairs)
        printed = systran_align.Aligner(forward, backward).align_batch(sources, targets)
        known = {word for side in (sources, targets) for words in side for word in words}
        there, back = (read_table(Path(file), known) for file in (forward, backward))
    directions = [
        [most_probable_links(there, s, t) for s, t in zip(sources, targets, strict=True)],
        [[(i, j) for j, i in most_probable_links(back, t, s)] for s, t in zip(sources, targets, strict=True)],
    ]
    total = differing = 0
    for one, other, result in zip(*directions, printed, strict=True):
        links = set(result["alignments"])
        total += len(links)
        differing += len((set(one) & set(other)) - links) + len(links - set(one) - set(other))
    if differing > TOLERATED * total:
        sys.exit(f"fast_align: {differing} of {total} links are not those that systran-align prints")
    return directions


def read_words(file):
    """The words of every line."""
    return [line.split() for line in file.read_text(encoding="utf-8").splitlines()]


def read_table(file, known):
    """Probabilities of systran-align's binary table: {word: {word of the other side: p}}, for the words in `known`.

    The file has the number of words and their text, each ended by a zero byte, then for every word id its number of
    entries and those, (id, p); word None is the empty one.
    """
    import numpy as np

    data = file.read_bytes()
    count, place, words = int.from_bytes(data[4:8], "little"), 8, [""]
    for _ in range(count):
        end = data.index(b"\0", place)
        words.append(data[place:end].decode())
        place = end + 1
    entry, table = np.dtype([("id", "<i4"), ("p", "<f4")]), {}
    place += 4  # the number of rows
    while place < len(data):
        row, entries = np.frombuffer(data, "<i4", 2, place).tolist()
        if row == NULL or words[row] in known:
            found = np.frombuffer(data, entry, entries, place + 8)
            named = ((words[n], p) for n, p in zip(found["id"].tolist(), found["p"].tolist(), strict=True))
            table[None if row == NULL else words[row]] = {word: p for word, p in named if word in known}
        place += 8 + entries * entry.itemsize
    return table


def most_probable_links(table, source, target):
    """Links every target word with the source word that most probably generated it, unless that is the empty one.

    p(a_j = i) p(f_j | e_i), with p(a_j = i) = (1 - p0) exp(-tension |i / m - j / n|) / Z_j (Dyer et al. 2013).
    """
    links = []
    for j, word in enumerate(target):
        weights = [math.exp(-TENSION * abs((j + 1) / len(target) - (i + 1) / len(source))) for i in range(len(source))]
        total = sum(weights)
        best, probability = None, NULL_PROBABILITY * table.get(None, {}).get(word, MISSING)
        for i, weight in enumerate(weights):
            p = (1 - NULL_PROBABILITY) * weight / total * table.get(source[i], {}).get(word, MISSING)
            if p > probability:
                best, probability = i, p
        if best is not None:
            links.append((best, j))
    return links


if __name__ == "__main__":
    first = int(sys.argv[4])
    aligner = {"eflomal": eflomal, "fast_align": fast_align}[sys.argv[1]]
    there, back = aligner(Path(sys.argv[2]), Path(sys.argv[3]), first)
    for forward, backward in zip(there[:first], back[:first], strict=True):
        print(json.dumps([forward, backward]))
