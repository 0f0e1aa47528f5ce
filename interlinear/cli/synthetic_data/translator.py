"""A model that translates all lines of a text into a file, for artificial data."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from interlinear.bundle import Bundle
from interlinear.cli.console import progress, say
from interlinear.cli.decoding.translation import InputLine, build_request, readable
from interlinear.errors import RequestError, UsageError
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import Request
from interlinear.models.protocol import EncoderDecoder
from interlinear.search import SearchOptions
from training.data.dataset import Dataset, read_rows
from training.data.dataset.generated_folder import complete_lines, open_lines
from training.data.text_lines import read_file

NUL = "\0"  # which a model of bytes may output, and which is refused where text is read


def write_outputs(
    file: BinaryIO,
    bundle: Bundle[EncoderDecoder],
    rows: Iterator[InputLine],
    options: SearchOptions,
    tokenised: frozenset[str],
    done: int,
    lines: int,
    label: str = "translating",
) -> None:
    """Append the model's output for every line after the first `done`, each as soon as the outputs before it are
    written.

    rows: these lines. lines: the number of all lines. tokenised: as in `Request`. A line that the model cannot read, or
    that `rows` leaves out, gets an empty one: training leaves such pairs out.
    """
    generator = SequenceGenerator(bundle, width=options.beam)
    numbers: deque[int] = deque()  # lines that are being searched

    def requests() -> Iterator[Request | RequestError]:
        for line in rows:
            numbers.append(line.number)
            yield build_request(line, bundle.card.model, options, explain=False, tokenised=tokenised)

    for result in progress(generator.generate(requests()), label, total=lines - done):
        text = "" if isinstance(result, RequestError) else result.candidates[0].text.replace(NUL, " ")
        number = numbers.popleft()
        file.write(b"\n" * (number - 1 - done) + f"{text}\n".encode())
        done = number
    file.write(b"\n" * (lines - done))


TRAIN, TARGET = "train", "target"


@dataclass(frozen=True)
class Translator:
    """A model, or an ensemble, that translates each line once.

    option: of the command, which names it. names, weights: of its members; the SHA-256 of their weights.
    """

    option: str
    names: Sequence[str]
    bundle: Bundle[EncoderDecoder]
    options: SearchOptions
    weights: Sequence[str]

    @property
    def record(self) -> list[dict[str, str]]:
        """Its members, for the record of its outputs."""
        return [{"name": name, "weights_sha256": sha} for name, sha in zip(self.names, self.weights, strict=True)]

    def check(self, languages: tuple[str | None, str | None]) -> None:
        """Raises UsageError for a model that reads other than one text, or is of other languages than from the first to
        the second."""
        card, first, (read, written) = self.bundle.card, self.bundle.card.model.first_text, languages
        if len(card.model.sources) > 1:
            problem = f"it reads {' and '.join(card.model.sources)}, and a line is one text"
            raise UsageError(self.option, problem, "name a translation model")
        for field, expected in ((first, read), (TARGET, written)):
            own = card.languages.get(field)
            if own and expected and own != expected:
                problem = f"the model's '{field}' is {own}, and the post-edits need {expected}"
                raise UsageError(self.option, problem, "name a model of the data's languages")

    def write(self, path: Path, rows: "Rows", read: bool, written: bool, lines: int) -> None:
        """Write the translations of all lines to a file, or only the missing ones.

        `read`, `written`: whether the words of the text and of its translation are separated by spaces.
        """
        if path.is_file():
            return
        file, done = open_lines(path)
        tokenised = {self.bundle.card.model.first_text: read, TARGET: written}
        with file:
            if done:
                say(f"{path.name}: going on after line {done:,} of {lines:,}")
            fields = frozenset(field for field, separated in tokenised.items() if separated)
            write_outputs(file, self.bundle, rows.after(done), self.options, fields, done, lines, path.name)
        complete_lines(path)


@dataclass(frozen=True)
class Rows:
    """The lines of a text: a field of a data set's train split, or a file."""

    text: tuple[Dataset, str] | Path

    def numbered(self) -> Iterator[tuple[int, str]]:
        """The lines with their numbers, from 1; lines without a required image are left out."""
        if isinstance(self.text, Path):
            return enumerate(read_file(self.text), 1)
        dataset, name = self.text
        return ((row.number, row.texts[0]) for row in read_rows(dataset, TRAIN, [name]))

    def after(self, done: int) -> Iterator[InputLine]:
        """The lines after the first `done`, to be translated."""
        for number, text in self.numbered():
            if number > done:
                yield InputLine(number, f"line {number}", readable(text))
