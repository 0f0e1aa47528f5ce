"""Translation of input lines by a model, batch by batch."""

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic_core import to_jsonable_python

from interlinear.bundle import Bundle
from interlinear.cli.decoding.images import ImageLoader
from interlinear.config import ModelConfig
from interlinear.errors import DataError, RequestError, UsageError, capitalized
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.models.protocol import EncoderDecoder
from interlinear.search import SearchOptions
from interlinear.translation.offline import OfflineModel, Outcome, search
from interlinear.translation.split_input import FindTerms
from interlinear.translation.splitting import Search, SplitOptions, SplitText
from training.data.cleaning import SURROGATE


@dataclass(frozen=True)
class InputLine:
    """A line of input, its location (`FILE, line N`), and its number over all files. A text that cannot be read is the
    error.

    extra_texts, pictures: the line's inputs for the model's further sources, by source name. Empty ones are absent.
    """

    number: int
    where: str
    text: str | DataError
    extra_texts: Mapping[str, str | DataError] = field(default_factory=dict)
    pictures: Mapping[str, ImageLoader] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """Whether the line has neither text nor picture."""
        return not self.pictures and not any(isinstance(text, DataError) or text.strip() for text in self.texts)

    @property
    def texts(self) -> tuple[str | DataError, ...]:
        return (self.text, *self.extra_texts.values())


@dataclass(frozen=True)
class LineOutcome:
    """The outcome of a line: an answer, a problem, or neither for an empty line."""

    line: InputLine
    answer: GenerationResult | None = None
    problem: str | None = None


def translate_lines(
    generation: SequenceGenerator,
    groups: Iterator[Sequence[InputLine]],
    options: SearchOptions,
    explain: bool = False,
    tokenised: frozenset[str] = frozenset(),
    find_terms: FindTerms | None = None,
    target_prefix: str | None = None,
    how: SplitOptions[OfflineModel] | None = None,
    fields: tuple[str, ...] = (),
) -> Iterator[LineOutcome]:
    """The outcome of every line, in order. A line's text is the model's first source; empty sources are absent.
    `tokenised`, `target_prefix`, `fields`: as in `Request`. `find_terms`: the terms of a line's text. `how`: how lines
    are split; None: they are searched whole."""
    config, model = generation.bundle.card.model, OfflineModel(generation)
    pivot = how.pivot if how else None
    for group in groups:
        texts: deque[SplitText[OfflineModel] | RequestError] = deque()  # lines that are being searched

        def searches(
            group: Sequence[InputLine] = group, texts: deque[SplitText[OfflineModel] | RequestError] = texts
        ) -> Iterator[Search[OfflineModel] | RequestError]:
            for line in group:
                if line.empty:
                    continue
                request = build_request(line, config, options, explain, tokenised, find_terms, target_prefix, fields)
                text = request if isinstance(request, RequestError) else split_line(model, request, how)
                texts.append(text)
                yield from [text] if isinstance(text, RequestError) else text.searches

        outcomes = search(model, pivot, searches())
        for line in group:
            if line.empty:
                yield LineOutcome(line)
                continue
            first = next(outcomes)  # which has split the line
            text = texts.popleft()
            merged = text if isinstance(text, RequestError) else merge_outcomes(text, first, outcomes)
            if isinstance(merged, RequestError):
                prefix = f"{merged.where}: " if len(config.sources) > 1 else ""
                yield LineOutcome(line, problem=f"{prefix}{merged.problem}.")
            else:
                yield LineOutcome(line, merged)


def merge_outcomes(text: SplitText[OfflineModel], first: Outcome, following: Iterator[Outcome]) -> Outcome:
    """The outcome of a text from its sentences' outcomes: the first error if there is one."""
    outcomes = [first, *(next(following) for _ in text.sentences[1:])]
    answers = [outcome for outcome in outcomes if isinstance(outcome, GenerationResult)]
    error = next((outcome for outcome in outcomes if isinstance(outcome, RequestError)), None)
    return error or text.merge_answers(answers)


def split_line(
    model: OfflineModel, request: Request, how: SplitOptions[OfflineModel] | None
) -> SplitText[OfflineModel] | RequestError:
    """A line as its sentences; a line within the model's limits is searched unsplit, unless the options say
    otherwise."""
    if how is None:
        return SplitText.whole(model, request)
    plain = how.split_sentences == "0" and not how.preserve_formatting
    if not request.texts or model.source not in request.texts or (plain and how.fits(model, request)):
        return SplitText.whole(model, request, how.pivot)
    try:
        return SplitText.of(model, request, how)
    except RequestError as error:
        return error


def check_target_prefix(bundle: Bundle[EncoderDecoder], tokenised: bool) -> None:
    """Raises UsageError if outputs cannot begin with a given text."""
    if tokenised:
        raise UsageError("--target-prefix", "it is raw text", "leave --tokenised out")
    if bundle.tokenizers["target"].config.operations_on is not None:
        raise UsageError("--target-prefix", "the model edits texts, and writes none of its own", "leave it out")


def readable(text: str) -> str | DataError:
    """A text of training data; the error for one that has bytes that are not UTF-8, which cleaning drops."""
    return DataError("the text", "is not valid UTF-8") if SURROGATE.search(text) else text


def build_request(
    line: InputLine,
    config: ModelConfig,
    options: SearchOptions,
    explain: bool,
    tokenised: frozenset[str],
    find_terms: FindTerms | None = None,
    target_prefix: str | None = None,
    fields: tuple[str, ...] = (),
) -> Request | RequestError:
    """The request for a line, or the error if the line is invalid."""
    texts: dict[str, str] = {}
    for name, text in zip((next(iter(config.texts), ""), *line.extra_texts), line.texts, strict=True):
        if isinstance(text, DataError):
            return RequestError(name, ". ".join(filter(None, (f"the line {text.problem}", capitalized(text.remedy)))))
        if name and text.strip():
            texts[name] = text
    try:
        images = {name: picture(config.images[name]) for name, picture in line.pictures.items()}
    except RequestError as error:
        return error
    terms = find_terms(texts[config.first_text]) if find_terms and config.first_text in texts else ()
    return Request(texts, options, explain, tokenised, images, terms, target_prefix, fields=fields)


def as_text(outcome: LineOutcome, numbered: bool) -> str:
    """The outcome as plain text; `numbered` adds line numbers and scores, for n-best lists."""
    candidates = outcome.answer.candidates if outcome.answer else []
    if not numbered:
        return candidates[0].text if candidates else ""
    if not candidates:
        return f"{outcome.line.number} |||  ||| 0"
    return "\n".join(f"{outcome.line.number} ||| {c.text} ||| {c.score:.4f}" for c in candidates)


def as_record(outcome: LineOutcome) -> str:
    """The outcome as one line of JSON."""
    line = outcome.line
    texts = {"source": line.text, **line.extra_texts}
    record: dict[str, object] = {"line": line.number}
    record |= {name: None if isinstance(text, DataError) else text for name, text in texts.items()}
    record["translations"] = [
        {"text": c.text, "score": c.score, "log_probability": c.log_probability}
        for c in (outcome.answer.candidates if outcome.answer else [])
    ]
    if outcome.answer and outcome.answer.explanation:
        record["explanation"] = outcome.answer.explanation.model_dump()
    if outcome.answer and outcome.answer.fields:
        record["fields"] = to_jsonable_python(outcome.answer.fields)
    if outcome.problem:
        record["problem"] = outcome.problem
    return json.dumps(record, ensure_ascii=False)
