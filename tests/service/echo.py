"""A translator without a model: an output is the words of its text in reverse order, one more at every step.

Its tokens are characters. A folder of it is a `model.json` with the keys `translator`, `task`, `languages` and
`explains`.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from interlinear.components import TRANSLATORS
from interlinear.config import ImageGrid, ImageNetwork, Task
from interlinear.errors import RequestError, UsageError
from interlinear.explanation import Explanation, Span
from interlinear.generation.request import Candidate, EncodedRequest, GenerationResult, Request
from interlinear.generation.target_prefix import TARGET_PREFIX
from interlinear.generation.terms.term import TERMS
from interlinear.generation.translator import Translator, TranslatorFacts, TranslatorReference
from interlinear.search import SearchOptions
from interlinear.source_names import MT
from interlinear.text import Encoded
from tests.service.balls import SIZE

PICTURE = ImageGrid(rows=2, columns=2, features=3, network=ImageNetwork(kind="small", size=SIZE))
SOURCES: dict[Task, dict[str, ImageGrid | None]] = {
    "translation": {"source": None},
    "summarization": {"source": None},
    "multimodal": {"source": None, "image": PICTURE},
    "post-edit": {"source": None, MT: None},
}


def write_echo(folder: Path, task: Task, explains: bool = True, **languages: str) -> Path:
    folder.mkdir(parents=True)
    content = {"translator": "echo", "task": task, "languages": languages, "explains": explains}
    (folder / "model.json").write_text(json.dumps(content))
    return folder


def words_of(text: str) -> list[Span]:
    return [Span(text=found[0], start=found.start(), end=found.end()) for found in re.finditer(r"\S+", text)]


def read_text(request: Request) -> str:
    """The text that an output is made of."""
    return request.texts.get(MT, request.texts.get("source", "picture"))


def reverse_words(text: str) -> str:
    return " ".join(word.text for word in reversed(words_of(text)))


@dataclass
class Running:
    row: EncodedRequest
    written: int = 0  # words

    @property
    def output(self) -> str:
        text = read_text(self.row.request)
        return text if self.row.request.is_copied else reverse_words(text)[: self.row.max_length]


@TRANSLATORS.register("echo")
class Echo:
    device, reverse = torch.device("cpu"), None

    def __init__(self, reference: TranslatorReference, *_device: str) -> None:
        content = (reference.folder / "model.json").read_bytes()
        known = json.loads(content)
        self.reference = replace(reference, weights=hashlib.sha256(content).hexdigest())
        self.facts = TranslatorFacts(
            known["task"],
            known["languages"],
            SOURCES[known["task"]],
            search=SearchOptions(beam=2),
            examples=[{name: "one two three" for name, grid in SOURCES[known["task"]].items() if grid is None}],
        )
        self.explains: bool = known["explains"]
        self.running: dict[int, Running] = {}

    def with_reverse(self, reverse: Translator, where: str) -> Translator:
        raise UsageError(where, "an echo needs none")

    def empty(self) -> "Echo":
        return Echo(self.reference)

    def warm_up(self, requests: int) -> Explanation:
        return self.explain("a", "a") if self.explains else self.explain("", "")

    def encode(self, request: Request) -> EncodedRequest:
        if request.terms or request.target_prefix is not None:
            raise RequestError(TERMS if request.terms else TARGET_PREFIX, "an echo takes none", "leave it out")
        for name, text in request.texts.items():
            if not text.strip() or not self.is_read(text):
                raise RequestError(name, "the text is empty" if not text.strip() else "the text is too long")
        sources = {name: Encoded(*characters(text)) for name, text in request.texts.items()}
        length = 1 + max((len(text.ids) for text in sources.values()), default=0)
        limit = min(request.options.output_limit(length), self.facts.limits.target_length)
        return EncodedRequest(request, sources, length, length, limit)

    def is_read(self, text: str) -> bool:
        return self.count_tokens(text) <= self.facts.limits.source_length

    def fits(self, request: Request) -> bool:
        return self.is_read(request.texts["source"])

    def count_tokens(self, text: str) -> int:
        return len(text)

    def decode_prefix(self, ids: Sequence[int], request: Request) -> str:
        return "".join(map(chr, ids))

    def is_usually_small(self, word: str) -> bool:
        return True

    @property
    def positions(self) -> tuple[int, int]:
        positions = sum(each.row.positions for each in self.running.values())
        return positions, positions

    def __contains__(self, number: object) -> bool:
        return number in self.running

    def admit(self, requests: Sequence[tuple[int, EncodedRequest]]) -> None:
        self.running.update((number, Running(row)) for number, row in requests)

    def step(self, working: Callable[[], None] = lambda: None) -> list[tuple[int, GenerationResult]]:
        for each in self.running.values():
            each.written += 1
        finished = {n: each for n, each in self.running.items() if each.written >= len(words_of(each.output))}
        self.cancel(finished)
        return [(number, self.result(each)) for number, each in finished.items()]

    def result(self, running: Running) -> GenerationResult:
        request, output = running.row.request, running.output
        texts = dict.fromkeys([output, read_text(request)])
        candidates = [Candidate(text, -float(k), -float(k), characters(text)[0]) for k, text in enumerate(texts)]
        explanation = (
            self.explain(request.texts.get("source", ""), output) if request.explain and self.explains else None
        )
        candidates[0] = replace(candidates[0], explanation=explanation)
        return GenerationResult(candidates[: request.options.n_best], explanation)

    def explain(self, source: str, output: str) -> Explanation:
        """Each word of an output is aligned to the same word of the source, counted from the other end."""
        read, written = words_of(source), words_of(output)
        links = [(len(read) - 1 - j, j) for j in range(min(len(read), len(written)))]
        weights = [[float((i, j) in links) for i in range(len(read))] for j in range(len(written))]
        return Explanation(
            source=read,
            target=written,
            matrices={"echo": weights} if read else {},
            alignment=sorted(links),
            aligned_by="echo",
        )

    def prefixes(self, numbers: Collection[int]) -> dict[int, list[int]]:
        found = {}
        for number in self.running.keys() & set(numbers):
            output, count = self.running[number].output, self.running[number].written
            found[number] = characters(output[: words_of(output)[count - 1].end] if count else "")[0]
        return found

    def cancel(self, numbers: Iterable[int]) -> None:
        for number in list(numbers):
            self.running.pop(number, None)


def characters(text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """The tokens of a text, and their spans in it."""
    return list(map(ord, text)), [(i, i + 1) for i in range(len(text))]
