"""A model's outputs for the lines of a text, written line by line, so that an interrupted command can go on."""

from collections import deque
from collections.abc import Iterator
from typing import BinaryIO

from interlinear.console import progress
from interlinear.decoding.translation import InputLine, build_request
from seq2seq.bundle import Bundle
from seq2seq.errors import RequestError
from seq2seq.generate import SequenceGenerator
from seq2seq.generation_request import Request
from seq2seq.model.ensemble import Predictor
from seq2seq.search import SearchOptions

NUL = "\0"  # which a model of bytes may output, and which is refused where text is read


def write_outputs(
    file: BinaryIO,
    bundle: Bundle[Predictor],
    rows: Iterator[InputLine],
    options: SearchOptions,
    tokenised: frozenset[str],
    done: int,
    lines: int,
    label: str = "translating",
) -> None:
    """Append the model's output for every line after the first `done`, each as soon as those before it are written.

    rows: those lines. lines: the number of all. tokenised: as in `Request`. A line that the model cannot read, or that
    `rows` leaves out, gets an empty one: training leaves such pairs out.
    """
    generator = SequenceGenerator(bundle, width=options.beam)
    numbers: deque[int] = deque()  # of the lines that are being searched

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
