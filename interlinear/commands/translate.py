"""`interlinear translate`: lines in, lines out, in their order."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar, cast

import typer

from interlinear.console import FAILED, say
from interlinear.decoding.images import ImageFolder, ImageLoader, ImageNames, folder_images
from interlinear.decoding.search_options import (
    BeamSize,
    CoveragePenalty,
    LengthPenalty,
    MaxLength,
    MinLength,
    NBest,
    ReplaceUnknown,
    SearchOverrides,
    Tokenised,
)
from interlinear.evaluation.test_sets import MT, MtFile
from interlinear.options import Device, InputFiles, Json, ModelName, PrecisionName, Tracking
from seq2seq.errors import DataError, RequestError, UsageError

if TYPE_CHECKING:
    from seq2seq.config import ModelConfig
    from seq2seq.generate import GenerationResult, Request, SequenceGenerator
    from seq2seq.search import SearchOptions

Item = TypeVar("Item")

END_OF_INPUT = object()
CHUNK = 1 << 20  # bytes read at a time, if there are so many: what has come is answered before more is waited for


@dataclass(frozen=True)
class InputLine:
    """A line of input, where it stands (`FILE, line N`), and its number over all files. A text is None if not UTF-8.

    beside, pictures: what belongs to it of the model's further sources, by their names. What is empty is absent.
    """

    number: int
    where: str
    text: str | None
    extra_texts: Mapping[str, str | None] = field(default_factory=dict)
    pictures: Mapping[str, ImageLoader] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether nothing is there to be read."""
        return not self.pictures and all(text is not None and not text.strip() for text in self.texts)

    @property
    def texts(self) -> tuple[str | None, ...]:
        return (self.text, *self.extra_texts.values())


@dataclass(frozen=True)
class LineOutcome:
    """What became of a line: an answer; nothing, for an empty line; or the problem that it had."""

    line: InputLine
    answer: "GenerationResult | None" = None
    problem: str | None = None


def translate(
    model: ModelName,
    files: Annotated[list[Path] | None, InputFiles] = None,
    mt: MtFile = None,
    image_dir: ImageFolder = None,
    images: ImageNames = None,
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
    precision: PrecisionName = "fp32",
    tracking: Tracking = None,
) -> int:
    """Translate files, or stdin, to stdout: one line for every line, in order, as soon as it is ready.

    An empty line stays empty. A line that the model cannot read (too long, or not UTF-8) becomes an empty line, is
    named on stderr, and the exit code is 1 at the end. With --n-best N a line becomes N lines
    `NUMBER ||| TEXT ||| SCORE`. Lines of several files are counted on; --mt and the pictures go by that count.
    """
    from interlinear.decoding.model_loading import load_bundle
    from seq2seq.generate import SequenceGenerator

    overrides = SearchOverrides(
        beam_size, length_penalty, n_best, min_length, max_length, coverage_penalty, replace_unknown
    )
    bundle = load_bundle(model, tracking, device, precision)
    options = overrides.apply_to(bundle.card.search)
    generation = SequenceGenerator(bundle, width=options.beam)
    failed = 0
    groups = attach_inputs(read_groups(files or []), bundle.card.model, mt, image_dir, images)
    tokenised_fields = frozenset({*bundle.card.model.texts, "target"}) if tokenised else frozenset[str]()
    for outcome in translate_lines(generation, groups, options, explain, tokenised_fields):
        if outcome.problem:
            failed += 1
            say(f"{outcome.line.where}: {outcome.problem} The line stays empty.")
        print(as_record(outcome) if as_json or explain else as_text(outcome, numbered=n_best is not None))
        sys.stdout.flush()
    return FAILED if failed else 0


def translate_lines(
    generation: "SequenceGenerator",
    groups: Iterator[Sequence[InputLine]],
    options: "SearchOptions",
    explain: bool = False,
    tokenised: frozenset[str] = frozenset(),
) -> Iterator[LineOutcome]:
    """What becomes of every line, in order. A line's text is the model's first; what is empty is absent. `tokenised`:
    as a `Request` has it."""
    config = generation.bundle.card.model
    for group in groups:
        asked = (build_request(line, config, options, explain, tokenised) for line in group if not line.empty)
        answers = generation.generate(asked)
        for line in group:
            if line.empty:
                yield LineOutcome(line)
            elif isinstance(answer := next(answers), RequestError):
                where = f"{answer.where}: " if len(config.sources) > 1 else ""
                yield LineOutcome(line, problem=f"{where}{answer.problem}.")
            else:
                yield LineOutcome(line, answer)


def build_request(
    line: InputLine, config: "ModelConfig", options: "SearchOptions", explain: bool, tokenised: frozenset[str]
) -> "Request | RequestError":
    """What is asked of the model for a line; or what is wrong with the line."""
    from seq2seq.generate import Request

    texts: dict[str, str] = {}
    for name, text in zip((next(iter(config.texts), ""), *line.extra_texts), line.texts, strict=True):
        if text is None:
            return RequestError(name, "the line is not valid UTF-8")
        if name and text.strip():
            texts[name] = text
    try:
        images = {name: picture(config.images[name]) for name, picture in line.pictures.items()}
    except RequestError as error:
        return error
    return Request(texts, options, explain, tokenised, images)


def attach_inputs(
    groups: Iterator[list[InputLine]], config: "ModelConfig", mt: Path | None, folder: Path | None, names: Path | None
) -> Iterator[list[InputLine]]:
    """The lines with what belongs to them. Raises CallError for what the model does not read; DataError where there is
    more of one than of the other."""
    if mt and MT not in config.texts:
        raise UsageError("--mt", f"the model edits no translations: it reads {', '.join(config.sources)}")
    if folder and not config.images:
        raise UsageError("--image-dir", f"the model reads no pictures: it reads {', '.join(config.sources)}")
    extra_texts: dict[str, Iterator[InputLine]] = {MT: chain.from_iterable(read_groups([mt]))} if mt else {}
    pictures = folder_images(folder, names)
    for group in groups:
        lines = []
        for line in group:
            texts = {name: next_item(of, str(mt)).text for name, of in extra_texts.items()}
            found = next_item(pictures, str(names)) if pictures else None
            images = {next(iter(config.images)): found} if found else {}
            lines.append(replace(line, extra_texts=texts, pictures=images))
        yield lines
    for rest, path in ((extra_texts.get(MT), mt), (pictures, names)):
        if rest and path and next(rest, END_OF_INPUT) is not END_OF_INPUT:
            raise line_count_error(str(path))


def next_item(items: Iterator[Item], name: str) -> Item:
    """The next item. Raises DataError where there is none."""
    for item in items:
        return item
    raise line_count_error(name)


def line_count_error(name: str) -> DataError:
    return DataError(name, "it has not as many lines as there are to translate", "line i of each must belong together")


def read_groups(files: Sequence[Path]) -> Iterator[list[InputLine]]:
    """The lines of files one after the other, or of stdin, in groups: what has come so far, at least one line each.

    So a file is translated in large batches, and what a person types or a program pipes is answered at once.
    """
    read = 0
    for path in files or (None,):
        name = str(path) if path else "stdin"
        with path.open("rb") if path else nullcontext(cast(BufferedReader, sys.stdin.buffer)) as file:
            before = read
            for group in read_whole_lines(file):
                yield [
                    InputLine(number, f"{name}, line {number - before}", decode_line(line, first=number == before + 1))
                    for number, line in enumerate(group, read + 1)
                ]
                read += len(group)


def read_whole_lines(file: BufferedReader) -> Iterator[list[bytes]]:
    """The lines of a file without their line ends, in groups: the whole lines of what could be read at once."""
    rest = b""
    while chunk := file.read1(CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield lines
    if rest:
        yield [rest]


def decode_line(line: bytes, first: bool) -> str | None:
    """A line's text, without carriage return and (first line of a file) byte order mark; None if it is not UTF-8."""
    try:
        return line.removesuffix(b"\r").decode("utf-8-sig" if first else "utf-8")
    except UnicodeDecodeError:
        return None


def as_text(outcome: LineOutcome, numbered: bool) -> str:
    """The output as plain text; numbered, with the score, where several were asked for."""
    candidates = outcome.answer.candidates if outcome.answer else []
    if not numbered:
        return candidates[0].text if candidates else ""
    if not candidates:
        return f"{outcome.line.number} |||  ||| 0"
    return "\n".join(f"{outcome.line.number} ||| {c.text} ||| {c.score:.4f}" for c in candidates)


def as_record(outcome: LineOutcome) -> str:
    """The outcome as one line of JSON."""
    import json

    record: dict[str, object] = {"line": outcome.line.number, "source": outcome.line.text, **outcome.line.extra_texts}
    record["translations"] = [
        {"text": c.text, "score": c.score, "log_probability": c.log_probability}
        for c in (outcome.answer.candidates if outcome.answer else [])
    ]
    if outcome.answer and outcome.answer.explanation:
        record["explanation"] = outcome.answer.explanation.model_dump()
    if outcome.problem:
        record["problem"] = outcome.problem
    return json.dumps(record, ensure_ascii=False)
