"""How many inline tags does projection put around exactly the right words?

    python -m research.quality.projection --data FOLDER [--peers FOLDER] [--further LANGUAGE SOURCE TARGET ...] [--save]

FOLDER of `--data` has the segments of localization-xml (Hashimoto et al. 2019), `en-de.en.gz` and `en-de.de.gz`, and so
on. Source and reference are aligned without their tags, the source's tags are projected onto the reference's words, and
compared with the reference's own tags. Links are made by our aligner, and by eflomal, which
`benchmarks/peers/aligners.sh FOLDER` installs; eflomal's differ a little from run to run, as its samples do.
"""

import gzip
import html
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from benchmarks.runner import Benchmark, Column, Contestant, Figures, Labels, Options, run
from interlinear.alignment.hmm import LinkPosteriors, WordAligner
from interlinear.alignment.links import Link, symmetrize
from interlinear.alignment.pair_batches import WordPair, normalized_words
from interlinear.alignment.projection import TagSpan, project, tag_edges
from interlinear.errors import DataError, UsageError
from interlinear.text.words import word_spans
from research.quality.alignment import Peer, check_aligners

LANGUAGES = ("de", "fr", "zh")
TAG = re.compile(r"<(/?)([A-Za-z0-9_]+)>")
INNER_MARK = re.compile(r"['’‐‑\-]")
BLOCKS = {"ul", "li", "p", "note", "menucascade"}  # tags that separate words, as they are displayed

LEAST_POSTERIOR = 0.2  # of a link that projection uses

Projection = Callable[[Sequence[TagSpan], int, int], list[TagSpan]]

NOTES = (
    "*Exact* is the share of the source's tags whose projection encloses the same words as a tag of the same name in "
    "the reference; each tag of the reference counts once. *Structure* is the share of segments whose tags form the "
    "source's tree, siblings in any order; *as reference* the share whose written sequence of tags is the reference's, "
    "order included (the structure match of Hashimoto et al. 2019).",
    "*words* are those of `interlinear align`; in *parts* they are split at hyphens and apostrophes too. A tag of the "
    "reference whose edge lies inside a word is taken to enclose the whole word; *inside a word* is their number. "
    "A tag that opens where another closes, and tags of blocks and menus, separate words.",
    "Links: *symmetrized* by grow-diag-final-and; *both directions* are the links of either, those of both counting "
    "twice; *posteriors* weigh the mean of both directions' posteriors, from 0.2 on. *min-max* encloses all linked "
    "words, from the first to the last. eflomal 2.0.0 (one run) and, in the rows *ours*, our aligner learned from the "
    "1,000 pairs of the language alone, lower-cased, or from these and the ones of `--further`. The method's variants "
    "and constants were compared on these same segments; no others were held out.",
)


ProjectionsOf = Callable[[Sequence["Pair"], Sequence["Pair"]], dict[str, list[Projection]]]


@dataclass(frozen=True)
class Side:
    """A text without its tags, the names and word spans of these, and the words' character offsets."""

    text: str
    names: tuple[str, ...]
    spans: tuple[TagSpan, ...]
    words: tuple[tuple[int, int], ...]
    cut: int  # tags with an edge inside a word

    @property
    def tokens(self) -> str:
        return " ".join(self.text[start:end] for start, end in self.words)


Pair = tuple[Side, Side]


def parse(line: str, where: str, parts: bool) -> Side:
    """Separate a segment's text and tags. Raises DataError, located at `where`, if tags are not nested."""
    text, names, offsets, stack, end = "", list[str](), list[tuple[int, int, int | None]](), list[int](), 0
    closed_at = -1  # where the last closing tag ends
    for match in TAG.finditer(line):
        text += html.unescape(line[end : match.start()])
        separates = match[2] in BLOCKS or (not match[1] and closed_at == match.start())
        space = " " if separates and text and not text.endswith(" ") else ""
        end = match.end()
        if not match[1]:
            text += space
            offsets.append((len(text), len(text), stack[-1] if stack else None))
            stack.append(len(names))
            names.append(match[2])
        elif stack and names[stack[-1]] == match[2]:
            start, _, parent = offsets[stack[-1]]
            offsets[stack.pop()] = start, len(text), parent
            text += space
            closed_at = end
        else:
            raise DataError(where, f"</{match[2]}> closes no open tag", "tags must be nested")
    if stack:
        raise DataError(where, f"<{names[stack[-1]]}> is not closed", "tags must be nested")
    text += html.unescape(line[end:])
    words = [part for span in word_spans(text) for part in (word_parts(text, *span) if parts else [span])]
    spans = tuple(
        TagSpan(
            sum(word_end <= start for _, word_end in words),
            sum(word_end <= start if start == stop else word_start < stop for word_start, word_end in words),
            parent,
        )
        for start, stop, parent in offsets
    )
    cut = sum(any(a < start < b or a < stop < b for a, b in words) for start, stop, _ in offsets)
    return Side(text, tuple(names), spans, tuple(words), cut)


def word_parts(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """A word cut at its inner hyphens and apostrophes, which become words too."""
    edges = [start, *(edge + start for mark in INNER_MARK.finditer(text[start:end]) for edge in mark.span()), end]
    return [(a, b) for a, b in pairwise(edges) if a < b]


def read_lines(path: Path) -> list[str]:
    """The lines of a gzip file."""
    if not path.is_file():
        raise UsageError(str(path), "there is no such file", "give parallel text as gzip files")
    return gzip.decompress(path.read_bytes()).decode().splitlines()


def read_pairs(folder: Path, language: str, parts: bool) -> list[Pair]:
    """The segments of a language with their references."""
    sides = []
    for side in ("en", language):
        path = folder / f"en-{language}.{side}.gz"
        sides.append([parse(line, f"{path.name}, line {n}", parts) for n, line in enumerate(read_lines(path), 1)])
    return list(zip(*sides, strict=True))


def read_plain(source: Path, target: Path) -> list[Pair]:
    """The pairs of two gzip files of text without tags."""
    sides = [[Side(line, (), (), tuple(word_spans(line)), 0) for line in read_lines(path)] for path in (source, target)]
    if len(sides[0]) != len(sides[1]):
        raise DataError(
            str(target), f"it has {len(sides[1])} lines, {source.name} {len(sides[0])}", "give parallel files"
        )
    return list(zip(*sides, strict=True))


def words_of(pairs: Sequence[Pair]) -> list[WordPair]:
    """The words of both sides, in lower case."""
    return [
        (normalized_words(source.tokens, tokenised=True), normalized_words(target.tokens, tokenised=True))
        for source, target in pairs
    ]


def links_of_eflomal(peers: Path, pairs: Sequence[Pair], further: Sequence[Pair]) -> dict[str, list[Projection]]:
    """The compared projections of every segment along eflomal's links, learned from `pairs` and `further` pairs."""
    forward, backward = Peer("eflomal", peers).run(words_of([*pairs, *further]), len(pairs))
    return by_eflomal([*map(sorted, forward)], [*map(sorted, backward)])


def links_of_ours(pairs: Sequence[Pair], further: Sequence[Pair]) -> dict[str, list[Projection]]:
    """The same of our aligner."""
    _, posteriors = WordAligner.learn(words_of([*pairs, *further]))
    return by_ours(list(islice(posteriors, len(pairs))))


def by_project(links: Sequence[Link]) -> Projection:
    return lambda spans, source, target: project(spans, links, source, target)


def by_min_max(links: Sequence[Link]) -> Projection:
    """The baseline: from the first to the last linked word; a tag without links comes before the first word."""

    def min_max(spans: Sequence[TagSpan], source: int, target: int) -> list[TagSpan]:
        found = []
        for span in spans:
            words = [j for i, j in links if span.start <= i < span.end]
            found.append(TagSpan(min(words), max(words) + 1, span.parent) if words else TagSpan(0, 0, span.parent))
        return found

    return min_max


def by_eflomal(forward: Sequence[Sequence[Link]], backward: Sequence[Sequence[Link]]) -> dict[str, list[Projection]]:
    """The compared projections of every segment, from the links of both directions."""
    symmetrized = [symmetrize(f, b, "grow-diag-final-and") for f, b in zip(forward, backward, strict=True)]
    return {
        "symmetrized, min-max": [by_min_max(links) for links in symmetrized],
        "symmetrized": [by_project(links) for links in symmetrized],
        "both directions": [by_project([*f, *b]) for f, b in zip(forward, backward, strict=True)],
    }


def by_ours(posteriors: Sequence[LinkPosteriors | None]) -> dict[str, list[Projection]]:
    """The same from our aligner's posteriors; a segment without words on one side has none."""
    return {
        "ours, both directions": [
            by_project([*found.forward(), *found.backward()] if found else []) for found in posteriors
        ],
        "ours, posteriors": [by_posteriors(found) if found else by_project([]) for found in posteriors],
    }


def by_posteriors(found: LinkPosteriors) -> Projection:
    """Projection along all likely links, each with its posterior as weight."""
    weight_JI = (found.forward_JI + found.backward_JI) / 2
    targets, sources = np.nonzero(weight_JI >= LEAST_POSTERIOR)
    links = list(zip(sources.tolist(), targets.tolist(), strict=True))
    weights = weight_JI[targets, sources].tolist()
    return lambda spans, source, target: project(spans, links, source, target, weights)


@dataclass
class Score:
    """Counts over the segments of a language whose reference has the source's tags, each as often."""

    tags: int = 0
    exact: int = 0
    segments: int = 0
    structure: int = 0
    as_reference: int = 0

    def add(self, source: Side, reference: Side, found: Sequence[TagSpan]) -> None:
        ours, theirs = (
            Counter((name, span.start, span.end) for name, span in zip(side.names, spans, strict=True))
            for side, spans in ((source, found), (reference, reference.spans))
        )
        self.tags += len(found)
        self.exact += (ours & theirs).total()
        self.segments += 1
        self.structure += nested(found)
        written, wanted = (
            [(side.names[edge.tag], edge.opens) for edge in tag_edges(spans)]
            for side, spans in ((source, found), (reference, reference.spans))
        )
        self.as_reference += nested(found) and written == wanted


def nested(spans: Sequence[TagSpan]) -> bool:
    """Whether the spans can be written as markup with the parents that they state."""
    positions = [edge.position for edge in tag_edges(spans)]
    return positions == sorted(positions)


def score(pairs: Sequence[Pair], projections: Sequence[Projection]) -> tuple[Score, int, int]:
    """The score; the number of segments with other tags in the reference; and of reference tags that cut a word."""
    total, apart, cut = Score(), 0, 0
    for (source, reference), projection in zip(pairs, projections, strict=True):
        if Counter(source.names) != Counter(reference.names):
            apart += 1
        elif source.names:
            found = projection(source.spans, len(source.words), len(reference.words))
            total.add(source, reference, found)
            cut += reference.cut
    return total, apart, cut


def measure(
    data: Path, further: Mapping[str, tuple[Path, Path]], lines: int,
    projections_of: ProjectionsOf,
) -> dict[Labels, Figures]:  # fmt: skip
    """An aligner's projections in every language and unit, and with further pairs to learn from."""
    rows: dict[Labels, Figures] = {}
    for language in LANGUAGES:
        learned: list[tuple[str, list[Pair]]] = [("words", []), ("parts", [])]
        learned += [("words", read_plain(*further[language]))] if language in further else []
        for units, more in learned:
            pairs = read_pairs(data, language, parts=units == "parts")[:lines]
            for way, projections in projections_of(pairs, more).items():
                total, apart, cut = score(pairs, projections)
                shares = {
                    "exact": total.exact / total.tags, "structure": total.structure / total.segments,
                    "as_reference": total.as_reference / total.segments,
                }  # fmt: skip
                key = (f"en-{language}", units, f"{len(pairs) + len(more):,}", way)
                rows[key] = {"tags": total.tags, **shares, "cut": cut, "apart": apart}
    return rows


def main() -> None:
    options = Options(__doc__, rounds=1)
    options.add_argument("--data", type=Path, required=True, help="the folder of localization-xml")
    options.add_argument("--peers", type=Path, help="the folder of benchmarks/peers/aligners.sh; without it, ours only")
    options.add_argument(
        "--further", nargs=3, action="append", default=[], metavar=("LANGUAGE", "SOURCE", "TARGET"),
        help="more parallel text for the aligners, as gzip files; their links are measured beside those without",
    )  # fmt: skip
    options.size("--lines", None, 100, "segments of each language")
    asked = options.parse()
    if asked.peers:
        check_aligners(asked.peers)
    further = {language: (Path(source), Path(target)) for language, source, target in asked.further}
    aligners: dict[str, ProjectionsOf]
    aligners = {"eflomal": partial(links_of_eflomal, asked.peers)} if asked.peers else {}
    aligners["interlinear align"] = links_of_ours
    benchmark = Benchmark(
        "projection",
        "Projection of tags by alignment",
        {
            "tags": Column("tags", ".0f"),
            "exact": Column("exact", ".1%"),
            "structure": Column("structure", ".1%"),
            "as_reference": Column("as reference", ".1%"),
            "cut": Column("inside a word", ".0f"),
            "apart": Column("other tags", ".0f"),
        },
        NOTES,
        ("languages", "units", "pairs", "links"),
    )
    contestants = [
        Contestant(name, partial(measure, asked.data, further, asked.lines, projections_of))
        for name, projections_of in aligners.items()
    ]
    run(benchmark, contestants, asked)


if __name__ == "__main__":
    try:
        main()
    except (DataError, UsageError) as problem:
        raise SystemExit(str(problem)) from None
