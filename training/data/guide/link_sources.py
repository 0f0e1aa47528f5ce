"""Sources of word alignments of the training pairs: a file, an aligner, or a model of the opposite direction."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from interlinear.alignment.hmm_constants import constants_digest
from interlinear.alignment.links import Link, read_gold_alignment, symmetrize
from interlinear.alignment.pair_batches import normalize_words
from interlinear.errors import DataError, UsageError
from interlinear.files import checksum
from interlinear.installation import how_to_install
from interlinear.models.attention_reading import quick_reading
from training.data.dataset.fields import TextField
from training.data.formats import Part, count_lines
from training.data.text_lines import read_file

if TYPE_CHECKING:
    from interlinear.generation.generator import SequenceGenerator

Words = Sequence[str]
ProgressCallback = Callable[[int], None]
PAIRS_AHEAD = 2048  # pairs that are sorted by length, so that a batch of forced decoding has similar lengths


class GuidePair(NamedTuple):
    """A training pair: its line in the texts, from 0, the texts, and the numbers of their words."""

    line: int
    source: str
    target: str
    words: tuple[Words, Words]


class LinkSource(Protocol):
    """Links (source word, target word) of training pairs.

    identity: the inputs that the links depend on, as part of the prepared data's key. symmetrized: whether they combine
    both directions; False for links of the opposite direction alone, one for each source word.
    """

    @property
    def identity(self) -> Mapping[str, str]: ...

    @property
    def symmetrized(self) -> bool: ...

    def check(self, text: TextField) -> None:
        """Check that it can align the training texts, such as `text`, before any long work. Raises DataError."""

    def links(self, pairs: Callable[[], Iterator[GuidePair]], advance: ProgressCallback) -> Iterator[Sequence[Link]]:
        """The links of every pair, in order. `pairs` starts to read the pairs again with each call. `advance` receives
        the number of pairs just aligned. Raises InterlinearError."""


class LinksFile:
    """A file in Pharaoh format, whose line i belongs to line i of the training texts."""

    symmetrized = True

    def __init__(self, path: Path) -> None:
        """Raises DataError for a file that is not there."""
        if not path.is_file():
            raise DataError(str(path), "there is no such file, which training.guide.from names", "give its path")
        self.path = path
        self.identity = {"from": "file", "sha256": checksum(path)}

    def check(self, text: TextField) -> None:
        lines = sum(count_lines(part).lines for part in text.parts)
        if (own := count_lines(Part(self.path)).lines) != lines:
            raise DataError(
                str(self.path),
                f"has {own:,} lines, and the training texts have {lines:,}",
                "line i must have the links of pair i; a pair without links has an empty line",
            )

    def links(self, pairs: Callable[[], Iterator[GuidePair]], advance: ProgressCallback) -> Iterator[Sequence[Link]]:
        lines = enumerate(read_file(self.path))
        for pair in pairs():
            line = next(text for number, text in lines if number == pair.line)
            source, target = pair.words
            found = read_gold_alignment(line, f"{self.path}, line {pair.line + 1}", len(source), len(target))
            yield sorted(found.sure | found.possible)
            advance(1)


AlignPairs = Callable[[Sequence[tuple[Words, Words]], ProgressCallback], Sequence[Sequence[Link]]]


class Aligner:
    """A statistical aligner, trained on all pairs of this training alone."""

    symmetrized = True

    def __init__(self, name: str) -> None:
        """`name`: one of ALIGNERS. Raises UsageError where it is not installed."""
        self.name, self.align = name, ALIGNERS[name]()
        self.identity = {"from": name}
        if name == "hmm":
            self.identity["constants"] = constants_digest()

    def check(self, text: TextField) -> None:
        """All texts can be aligned."""

    def links(self, pairs: Callable[[], Iterator[GuidePair]], advance: ProgressCallback) -> Iterator[Sequence[Link]]:
        words = [(normalize_words(source), normalize_words(target)) for source, target in (p.words for p in pairs())]
        aligned = [number for number, (source, target) in enumerate(words) if source and target]
        found = iter(self.align([words[number] for number in aligned], advance))
        alignable = set(aligned)
        for number in range(len(words)):
            yield next(found) if number in alignable else []


def hmm() -> AlignPairs:
    """Our own aligner, which shows its progress by passes over all pairs."""
    from interlinear.alignment.hmm import align_corpus

    def align(pairs: Sequence[tuple[Words, Words]], advance: ProgressCallback) -> Sequence[Sequence[Link]]:
        shown = 0

        def progress(done: int, passes: int) -> None:
            nonlocal shown
            now = len(pairs) * done // passes
            advance(now - shown)
            shown = now

        links: Sequence[Sequence[Link]] = align_corpus(pairs, progress=progress)
        return links

    return align


def eflomal() -> AlignPairs:
    """eflomal (Östling and Tiedemann 2016), both directions by grow-diag-final-and. It has no seed: runs differ."""
    try:
        from eflomal import Aligner as Eflomal
    except ImportError:
        raise missing("eflomal", "eflomal", "eflomal") from None

    def align(pairs: Sequence[tuple[Words, Words]], advance: ProgressCallback) -> Sequence[Sequence[Link]]:
        with tempfile.TemporaryDirectory() as folder:
            source, target, forward, backward = (Path(folder) / name for name in ("s", "t", "forward", "backward"))
            for path, side in ((source, 0), (target, 1)):
                path.write_text("".join(" ".join(pair[side]) + "\n" for pair in pairs), encoding="utf-8")
            with source.open(encoding="utf-8") as s, target.open(encoding="utf-8") as t:
                Eflomal().align(s, t, links_filename_fwd=str(forward), links_filename_rev=str(backward))
            both = [[parse(line) for line in path.read_text().splitlines()] for path in (forward, backward)]
        links = [symmetrize(one, other, "grow-diag-final-and") for one, other in zip(*both, strict=True)]
        advance(len(links))
        return links

    def parse(line: str) -> list[Link]:
        return [(int(i), int(j)) for i, j in (link.split("-") for link in line.split())]

    return align


def fast_align() -> AlignPairs:
    """fast_align (Dyer et al. 2013) as in systran-align, with its authors' options (-d -o -v), both directions."""
    try:
        import systran_align
    except ImportError:
        raise missing("fast_align", "systran-align", "fast-align") from None

    def align(pairs: Sequence[tuple[Words, Words]], advance: ProgressCallback) -> Sequence[Sequence[Link]]:
        with tempfile.TemporaryDirectory() as folder:
            text, forward, backward = (str(Path(folder) / name) for name in ("pairs", "forward", "backward"))
            sources, targets = ([[without_separator(word) for word in pair[side]] for pair in pairs] for side in (0, 1))
            with Path(text).open("w", encoding="utf-8") as file:
                sides = zip(sources, targets, strict=True)
                file.writelines(f"{' '.join(source)} ||| {' '.join(target)}\n" for source, target in sides)
            systran_align.generate_alignment_probabilities(
                text, forward, backward, favor_diagonal=True, optimize_tension=True, variational_bayes=True
            )
            found = systran_align.Aligner(forward, backward).align_batch(sources, targets)
        advance(len(found))
        return [sorted((int(i), int(j)) for i, j in each["alignments"]) for each in found]

    def without_separator(word: str) -> str:
        """A word that cannot be taken for the sign between the two texts of a line."""
        return word.replace("|||", "|")

    return align


ALIGNERS: dict[str, Callable[[], AlignPairs]] = {"hmm": hmm, "eflomal": eflomal, "fast_align": fast_align}


def missing(name: str, package: str, extra: str) -> UsageError:
    return UsageError(
        f"training.guide.from: {name}",
        f"the package {package} is not installed",
        f"{how_to_install(extra)}; or use from: hmm, which needs nothing",
    )


@dataclass(frozen=True)
class ReverseModel:
    """A trained model of the opposite direction, by forced decoding: each source word's most attended target word."""

    generator: "SequenceGenerator"
    raw: bool  # whether the texts are raw
    symmetrized: bool = False

    @property
    def identity(self) -> dict[str, str]:
        return {"from": "reverse", "weights": self.generator.bundle.card.weights_sha256}

    def check(self, text: TextField) -> None:
        """All texts can be aligned."""

    def links(self, pairs: Callable[[], Iterator[GuidePair]], advance: ProgressCallback) -> Iterator[Sequence[Link]]:
        name = self.generator.bundle.card.model.first_text
        rows = pairs()
        while ahead := list(islice(rows, PAIRS_AHEAD)):
            order = sorted(range(len(ahead)), key=lambda number: len(ahead[number].source))
            explanations = self.generator.align(
                (({name: ahead[number].target}, ahead[number].source) for number in order),
                self.raw,
                quick_reading(self.generator.bundle.model.readings),
            )
            found: dict[int, list[Link]] = {}
            for number, explanation in zip(order, explanations, strict=True):
                pair = ahead[number]
                if (len(explanation.target), len(explanation.source)) != tuple(map(len, pair.words)):
                    raise DataError(
                        f"line {pair.line + 1} of the training texts",
                        "the model of training.guide.reverse cuts it into other words",
                        "name a model of the same kind of text",
                    )
                found[number] = [(i, j) for j, i in explanation.alignment]
                advance(1)
            yield from (found[number] for number in range(len(ahead)))
