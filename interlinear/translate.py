"""`interlinear translate`: lines in, lines out, in their order."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from interlinear.arguments import Device, InputFiles, Json, ModelName, Tracking
from interlinear.searching import (
    Asked,
    BeamSize,
    CoveragePenalty,
    LengthPenalty,
    MaxLength,
    MinLength,
    NBest,
    ReplaceUnknown,
    Tokenised,
)
from interlinear.terminal import FAILED, say
from seq2seq.errors import RequestError

if TYPE_CHECKING:
    from seq2seq.generation import Answer, Generation
    from seq2seq.search import SearchOptions

CHUNK = 1 << 20  # bytes read at a time, if there are so many: what has come is answered before more is waited for


@dataclass(frozen=True)
class Line:
    """A line of input, where it stands (`FILE, line N`), and its number over all files. `text` is None if not UTF-8."""

    number: int
    where: str
    text: str | None


@dataclass(frozen=True)
class Outcome:
    """What became of a line: an answer; nothing, for an empty line; or the problem that it had."""

    line: Line
    answer: "Answer | None" = None
    problem: str | None = None


def translate(
    model: ModelName,
    files: Annotated[list[Path] | None, InputFiles] = None,
    n_best: NBest = None,
    beam_size: BeamSize = None,
    length_penalty: LengthPenalty = None,
    min_length: MinLength = None,
    max_length: MaxLength = None,
    coverage_penalty: CoveragePenalty = None,
    replace_unknown: ReplaceUnknown = None,
    tokenised: Tokenised = False,
    explain: Annotated[bool, typer.Option("--explain", help="Print JSON with what each word looked at.")] = False,
    as_json: Json = False,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> int:
    """Translate files, or stdin, to stdout: one line for every line, in order, as soon as it is ready.

    An empty line stays empty. A line that the model cannot read (too long, or not UTF-8) becomes an empty line, is
    named on stderr, and the exit code is 1 at the end. With --n-best N a line becomes N lines
    `NUMBER ||| TEXT ||| SCORE`.
    """
    from interlinear.loading import load_bundle
    from seq2seq.generation import Generation

    asked = Asked(beam_size, length_penalty, n_best, min_length, max_length, coverage_penalty, replace_unknown)
    bundle = load_bundle(model, tracking, device)
    options = asked.over(bundle.card.search)
    generation = Generation(bundle, width=options.beam)
    failed = 0
    for outcome in outcomes(generation, read_groups(files or []), options, explain, raw=not tokenised):
        if outcome.problem:
            failed += 1
            say(f"{outcome.line.where}: {outcome.problem} The line stays empty.")
        print(as_record(outcome) if as_json or explain else as_text(outcome, numbered=n_best is not None))
        sys.stdout.flush()
    return FAILED if failed else 0


def outcomes(
    generation: "Generation",
    groups: Iterator[Sequence[Line]],
    options: "SearchOptions",
    explain: bool = False,
    raw: bool = True,
) -> Iterator[Outcome]:
    """What becomes of every line of a model with one source, in order."""
    from seq2seq.generation import Request

    (source,) = generation.bundle.card.model.sources
    for group in groups:
        answers = generation.answers(
            Request({source: line.text}, options, explain, raw) for line in group if line.text and line.text.strip()
        )
        for line in group:
            if line.text is None:
                yield Outcome(line, problem="the line is not valid UTF-8.")
            elif not line.text.strip():
                yield Outcome(line)
            elif isinstance(answer := next(answers), RequestError):
                yield Outcome(line, problem=f"{answer.problem}.")
            else:
                yield Outcome(line, answer)


def read_groups(files: Sequence[Path]) -> Iterator[list[Line]]:
    """The lines of files one after the other, or of stdin, in groups: what has come so far, at least one line each.

    So a file is translated in large batches, and what a person types or a program pipes is answered at once.
    """
    read = 0
    for path in files or (None,):
        name = str(path) if path else "stdin"
        with path.open("rb") if path else nullcontext(cast(BufferedReader, sys.stdin.buffer)) as file:
            before = read
            for group in whole_lines(file):
                yield [
                    Line(number, f"{name}, line {number - before}", decoded(line, first=number == before + 1))
                    for number, line in enumerate(group, read + 1)
                ]
                read += len(group)


def whole_lines(file: BufferedReader) -> Iterator[list[bytes]]:
    """The lines of a file without their line ends, in groups: the whole lines of what could be read at once."""
    rest = b""
    while chunk := file.read1(CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


def decoded(line: bytes, first: bool) -> str | None:
    """A line's text, without carriage return and (first line of a file) byte order mark; None if it is not UTF-8."""
    try:
        return line.removesuffix(b"\r").decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError:
        return None


def as_text(outcome: Outcome, numbered: bool) -> str:
    """The output as plain text; numbered, with the score, where several were asked for."""
    candidates = outcome.answer.candidates if outcome.answer else []
    if not numbered:
        return candidates[0].text if candidates else ""
    if not candidates:
        return f"{outcome.line.number} |||  ||| 0"
    return "\n".join(f"{outcome.line.number} ||| {c.text} ||| {c.score:.4f}" for c in candidates)


def as_record(outcome: Outcome) -> str:
    """The outcome as one line of JSON."""
    import json

    record: dict[str, object] = {"line": outcome.line.number, "source": outcome.line.text}
    record["translations"] = [
        {"text": c.text, "score": c.score, "log_probability": c.log_probability}
        for c in (outcome.answer.candidates if outcome.answer else [])
    ]
    if outcome.answer and outcome.answer.explanation:
        record["explanation"] = outcome.answer.explanation.model_dump()
    if outcome.problem:
        record["problem"] = outcome.problem
    return json.dumps(record, ensure_ascii=False)
