"""Interlinear gloss in the terminal: under each source word the target words aligned to it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from interlinear.alignment.doubts import THRESHOLDS
from interlinear.explanation import Explanation

UNALIGNED = "·"
MARK = "?"  # mark of a doubtful word
REASONS = {
    "low_probability": f"a probability under {THRESHOLDS.probability:.0%}",
    "repeated": "said twice",
    "untranslated": "not translated",
    "unseen": "never seen in training",
}


@dataclass(frozen=True)
class GlossWord:
    """A target word, its position in the translation (from 1), its probability if that is known, and whether it is
    doubtful."""

    text: str
    position: int
    probability: float | None = None
    is_doubtful: bool = False

    @property
    def marked(self) -> str:
        """The word, after a mark if it is doubtful."""
        return MARK + self.text if self.is_doubtful else self.text


@dataclass(frozen=True)
class GlossColumn:
    """A source word, marked if it is doubtful, and the target words aligned to it, in the order of the translation."""

    source: str
    words: tuple[GlossWord, ...] = ()

    @property
    def target(self) -> str:
        """The target words; words that are not adjacent are joined by an ellipsis."""
        return self.styled_target().plain

    @property
    def positions(self) -> str:
        return " ".join(str(word.position) for word in self.words)

    @property
    def probabilities(self) -> str:
        return " ".join("–" if word.probability is None else f"{word.probability:.0%}" for word in self.words)

    @property
    def width(self) -> int:
        """Width of the column in terminal cells."""
        return max(map(cell_len, (self.source, self.target, self.positions, self.probabilities)))

    def styled_target(self) -> Text:
        """The target words with their colours."""
        text = Text()
        for word, previous in zip(self.words, [None, *self.words], strict=False):
            if previous:
                text.append(" " if word.position == previous.position + 1 else " … ", style="cyan")
            text.append(word.marked, style="yellow" if word.is_doubtful else "cyan")
        return text if self.words else Text(UNALIGNED, style="cyan")


def gloss_columns(explanation: Explanation) -> list[GlossColumn]:
    """A column for every source word."""
    confidence = explanation.confidence or [None] * len(explanation.target)
    doubtful = {(doubt.side, doubt.word) for doubt in explanation.doubts or []}
    columns = []
    for i, source in enumerate(explanation.source):
        aligned = sorted(target for word, target in explanation.alignment if word == i)
        words = tuple(
            GlossWord(explanation.target[j].text, j + 1, confidence[j], ("target", j) in doubtful) for j in aligned
        )
        columns.append(GlossColumn(MARK + source.text if ("source", i) in doubtful else source.text, words))
    return columns


def wrap(columns: Sequence[GlossColumn], width: int) -> list[list[GlossColumn]]:
    """The columns, broken into lines of at most `width` cells."""
    rows: list[list[GlossColumn]] = [[]]
    free = width
    for column in columns:
        if rows[-1] and column.width > free:
            rows.append([])
            free = width
        rows[-1].append(column)
        free -= column.width + 2
    return rows


def print_gloss(explanation: Explanation, console: Console, indent: int = 2) -> None:
    """Print source words, their target words, the target positions, and the probabilities if there are any.

    A doubtful word has a mark before it, and the reasons stand below; colours only on a terminal.
    """
    columns = gloss_columns(explanation)
    for line in wrap(columns, console.width - indent):
        for cells in gloss_rows(line, explanation.confidence is not None):
            text = Text(" " * indent)
            for column, cell in zip(line, cells, strict=True):
                text.append_text(cell)
                text.append(" " * (column.width - cell.cell_len + 2))
            text.rstrip()
            console.print(text, soft_wrap=True)
        console.print()
    given = {doubt.reason for doubt in explanation.doubts or []}
    if given:
        note = f"{MARK}  likely wrong: {', or '.join(text for reason, text in REASONS.items() if reason in given)}"
        console.print(Text(" " * indent + note, style="dim"), soft_wrap=True)


def gloss_rows(line: Sequence[GlossColumn], with_probabilities: bool) -> Iterator[list[Text]]:
    """The rows of a line of columns, each with a cell for every column."""
    yield [Text(column.source, style="bold") for column in line]
    yield [column.styled_target() for column in line]
    yield [Text(column.positions, style="dim") for column in line]
    if with_probabilities:
        yield [Text(column.probabilities, style="dim") for column in line]
