"""How many inline tags does projection put around exactly the right words?

    python -m benchmarks.projection --data FOLDER --peers FOLDER [--further LANGUAGE SOURCE TARGET ...]
        [--links LANGUAGE FILE ...] [--save]

FOLDER of `--data` has the segments of localization-xml (Hashimoto et al. 2019), `en-de.en.gz` and `en-de.de.gz`, and so
on. Source and reference are aligned without their tags, the source's tags are projected onto the reference's words, and
compared with the reference's own tags. Links are made by our aligner, and by eflomal, which
`benchmarks/peers/aligners.sh FOLDER` installs; eflomal's differ a little from run to run, as its samples do. `--text
FOLDER` writes the text without tags, a file
for each side, and ends; `interlinear align MODEL --source F --target F` of these files makes links for
`--links LANGUAGE FILE`, which are measured instead.
"""

import argparse
import gzip
import html
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path

import numpy as np

from benchmarks.alignment import Peer, check_aligners
from benchmarks.reporting import Report, say
from seq2seq.alignment import Link, TagSpan, project, symmetrize, tag_edges
from seq2seq.alignment.hmm import LinkPosteriors, WordAligner
from seq2seq.alignment.pair_batches import WordPair, normalized_words
from seq2seq.errors import DataError, UsageError
from seq2seq.text.segmentation import word_spans

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


def read_pairs(folder: Path, language: str, parts: bool) -> list[tuple[Side, Side]]:
    """The segments of a language with their references."""
    sides = []
    for side in ("en", language):
        path = folder / f"en-{language}.{side}.gz"
        sides.append([parse(line, f"{path.name}, line {n}", parts) for n, line in enumerate(read_lines(path), 1)])
    return list(zip(*sides, strict=True))


def read_plain(source: Path, target: Path) -> list[tuple[Side, Side]]:
    """The pairs of two gzip files of text without tags."""
    sides = [[Side(line, (), (), tuple(word_spans(line)), 0) for line in read_lines(path)] for path in (source, target)]
    if len(sides[0]) != len(sides[1]):
        raise DataError(
            str(target), f"it has {len(sides[1])} lines, {source.name} {len(sides[0])}", "give parallel files"
        )
    return list(zip(*sides, strict=True))


def read_links(path: Path, lines: int) -> list[list[Link]]:
    """Links in Pharaoh format, a line for each segment."""
    if not path.is_file():
        raise UsageError(str(path), "there is no such file", "write links with interlinear align")
    read = path.read_text().splitlines()
    if len(read) != lines:
        raise DataError(str(path), f"it has {len(read)} lines for {lines} segments", "align the files of --text")
    try:
        return [[(int(i), int(j)) for i, j in (link.split("-") for link in line.split())] for line in read]
    except ValueError:
        raise DataError(str(path), "it is not in Pharaoh format", "links are written 0-1") from None


def words_of(pairs: Sequence[tuple[Side, Side]]) -> list[WordPair]:
    """The words of both sides, in lower case."""
    return [
        (normalized_words(source.tokens, tokenised=True), normalized_words(target.tokens, tokenised=True))
        for source, target in pairs
    ]


def by_aligners(
    peers: Path, pairs: Sequence[tuple[Side, Side]], further: Sequence[tuple[Side, Side]]
) -> dict[str, list[Projection]]:
    """The compared projections of every segment, by aligners that learned from `pairs` and `further` pairs."""
    words = words_of([*pairs, *further])
    say(f"eflomal aligns {len(words):,} segments")
    forward, backward = Peer("eflomal", peers).run(words, len(pairs))
    say(f"interlinear align aligns {len(words):,} segments")
    _, posteriors = WordAligner.learn(words)
    return by_eflomal([*map(sorted, forward)], [*map(sorted, backward)]) | by_ours(list(islice(posteriors, len(pairs))))


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


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %"


def measure(pairs: Sequence[tuple[Side, Side]], projections: Sequence[Projection]) -> tuple[Score, int, int]:
    """The score; the number of segments with other tags in the reference; and of reference tags that cut a word."""
    score, apart, cut = Score(), 0, 0
    for (source, reference), projection in zip(pairs, projections, strict=True):
        if Counter(source.names) != Counter(reference.names):
            apart += 1
        elif source.names:
            found = projection(source.spans, len(source.words), len(reference.words))
            score.add(source, reference, found)
            cut += reference.cut
    return score, apart, cut


def write_text(data: Path, folder: Path) -> None:
    """Write both sides of every language without tags, for an aligner."""
    folder.mkdir(parents=True, exist_ok=True)
    for language in LANGUAGES:
        for side, texts in zip(
            ("en", language), zip(*read_pairs(data, language, parts=False), strict=True), strict=True
        ):
            lines = "".join(" ".join(text.text.split()) + "\n" for text in texts)
            (folder / f"en-{language}.{side}").write_text(lines)


def compared(
    data: Path, peers: Path | None, given: Mapping[str, Path], further: Mapping[str, tuple[Path, Path]]
) -> Iterator[tuple[str, str, str, list[tuple[Side, Side]], dict[str, list[Projection]]]]:
    """Every language and unit with the pairs that its links were learned from, its segments, and their projections."""
    if peers is None:
        for language, path in given.items():
            pairs = read_pairs(data, language, parts=False)
            links = read_links(path, len(pairs))
            yield language, "words", "", pairs, {
                "given, min-max": [*map(by_min_max, links)], "given": [*map(by_project, links)]
            }  # fmt: skip
        return
    for language in LANGUAGES:
        for units in ("words", "parts"):
            pairs = read_pairs(data, language, parts=units == "parts")
            yield language, units, f"{len(pairs):,}", pairs, by_aligners(peers, pairs, [])
        if language in further:
            pairs = read_pairs(data, language, parts=False)
            more = read_plain(*further[language])
            yield language, "words", f"{len(pairs) + len(more):,}", pairs, by_aligners(peers, pairs, more)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="the folder of localization-xml")
    parser.add_argument("--peers", type=Path, help="the folder of benchmarks/peers/aligners.sh")
    parser.add_argument("--links", nargs=2, action="append", default=[], metavar=("LANGUAGE", "FILE"))
    parser.add_argument(
        "--further",
        nargs=3,
        action="append",
        default=[],
        metavar=("LANGUAGE", "SOURCE", "TARGET"),
        help="more parallel text for the aligners, as gzip files; their links are measured beside those without",
    )
    parser.add_argument("--text", type=Path, help="write the text without tags to this folder, and end")
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    given = {language: Path(file) for language, file in asked.links}
    if unknown := sorted(set(given) - set(LANGUAGES)):
        parser.error(f"--links: no segments in {unknown[0]}; choose among {', '.join(LANGUAGES)}")
    if asked.text:
        write_text(asked.data, asked.text)
        return
    if not given and not asked.peers:
        parser.error("give --peers for the links of aligners, or --links")
    if given and asked.peers:
        parser.error("give --peers or --links, not both")
    if asked.peers:
        check_aligners(asked.peers)
    further = {language: (Path(source), Path(target)) for language, source, target in asked.further}
    rows, measured = [], {}
    for language, units, learned_from, pairs, ways in compared(asked.data, asked.peers, given, further):
        for way, projections in ways.items():
            score, apart, cut = measure(pairs, projections)
            rows.append(
                [
                    f"en-{language}", units, learned_from, way, f"{score.tags}", percent(score.exact, score.tags),
                    percent(score.structure, score.segments), percent(score.as_reference, score.segments),
                    f"{cut}", f"{apart}",
                ]
            )  # fmt: skip
            case = f"en-{language} {units} {learned_from} {way}"
            measured[case] = {**vars(score), "inside a word": cut, "apart": apart}
    columns = [
        "languages", "units", "pairs", "links", "tags", "exact", "structure", "as reference", "inside a word",
        "other tags",
    ]  # fmt: skip
    name = "projection_links" if given else "projection"
    Report(name, "Projection of tags by alignment", columns, rows, NOTES, measured).publish(asked.save)


if __name__ == "__main__":
    try:
        main()
    except (DataError, UsageError) as problem:
        raise SystemExit(str(problem)) from None
