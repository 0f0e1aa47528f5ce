"""`Translator`: the interface of the service's engine to the models that generate its outputs, and how one is opened.

The key `translator` of a folder's `model.json` names its kind; without the key, it is a bundle.
"""

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import torch

from interlinear.bundle.model_card import Limits, direction_of
from interlinear.components import TRANSLATORS
from interlinear.config import CompileChoice, ImageGrid, Precision, Task
from interlinear.errors import BundleError
from interlinear.explanation import Explanation
from interlinear.generation.request import EncodedRequest, GenerationResult, Request
from interlinear.metrics.score import Score
from interlinear.search import SearchOptions

META = "meta"  # the device of a translator without weights, which only encodes


@dataclass(frozen=True)
class TranslatorFacts:
    """Facts about a translator: task, languages, inputs, limits, and what its routes report.

    languages: the code of every source and of the target. sources: by name, in order; an image has its grid.
    search: the options of a request that gives none. takes_terms: whether requests may have terms.
    words: by text, the number of whole words in its vocabulary.
    """

    task: Task
    languages: dict[str, str]
    sources: dict[str, ImageGrid | None]
    search: SearchOptions = field(default_factory=SearchOptions)
    limits: Limits = field(default_factory=Limits)
    takes_terms: bool = False
    scores: dict[str, Score] = field(default_factory=dict)
    recipe: str | None = None
    dataset: str | None = None
    examples: list[dict[str, str]] = field(default_factory=list)
    words: dict[str, int] = field(default_factory=dict)

    @property
    def direction(self) -> str:
        """The language direction, such as `de to en`."""
        return direction_of(self.languages)

    @property
    def texts(self) -> list[str]:
        """The names of the text sources."""
        return [name for name, grid in self.sources.items() if grid is None]

    @property
    def images(self) -> dict[str, ImageGrid]:
        """The image sources."""
        return {name: grid for name, grid in self.sources.items() if grid is not None}


@dataclass(frozen=True)
class TranslatorReference:
    """A translator's folder, and how many requests it searches at a time.

    width: the largest beam that a request may use, at least the translator's default beam. shortlist: whether it
    searches only among the words of its shortlist. weights: the checksum of its weights; None if any are accepted.
    """

    folder: Path
    slots: int = 32
    width: int = 5
    shortlist: bool = False
    weights: str | None = None


class Translator(Protocol):
    """Generates outputs for the requests that it has admitted, step by step, each under a number that the caller gives.
    `encode`, `fits`, `count_tokens`, `decode_prefix` and `is_usually_small` are thread-safe, and need no weights."""

    @property
    def reference(self) -> TranslatorReference:
        """The reference from which another process opens the same translator."""

    @property
    def facts(self) -> TranslatorFacts: ...

    @property
    def device(self) -> torch.device:
        """The device of its searches. On a CPU, a step of more requests takes longer."""

    @property
    def reverse(self) -> "Translator | None":
        """The translator of the opposite direction, if explanations have the links of both directions."""

    def with_reverse(self, reverse: "Translator", where: str) -> "Translator":
        """The same with a reverse translator. Raises UsageError, located at `where`, if that is not of the opposite
        direction, or cannot be used with this one."""

    def empty(self) -> "Translator":
        """Another translator with the same weights, without requests."""

    def warm_up(self, requests: int) -> Explanation:
        """Search an example, so that the first request finds everything loaded; on a CPU, take a step with each number
        of requests up to this one. Returns an example of its explanations, which has every kind of weights; one
        without words if its results have none."""

    def encode(self, request: Request) -> EncodedRequest:
        """Check a request against the translator's limits, and convert its texts to ids. Raises RequestError."""

    def fits(self, request: Request) -> bool:
        """Whether the first text of a request, and its terms, are within its limits."""

    def count_tokens(self, text: str) -> int:
        """Number of tokens of a text of the first source, without the end symbol."""

    def decode_prefix(self, ids: Sequence[int], request: Request) -> str:
        """The certain beginning of an output that begins with these ids; empty until the request's target prefix is
        complete."""

    def is_usually_small(self, word: str) -> bool:
        """Whether a word of the target language is written with a small letter inside a sentence, as far as the
        translator knows."""

    @property
    def positions(self) -> tuple[int, int]:
        """Source positions that a step reads, without and with padding."""

    def __contains__(self, number: object) -> bool:
        """Whether a request was admitted and is not finished or cancelled."""

    def admit(self, requests: Sequence[tuple[int, EncodedRequest]]) -> None:
        """Add requests to the search, at most `slots` together."""

    def step(self, working: Callable[[], None] = lambda: None) -> list[tuple[int, GenerationResult]]:
        """Take one step for all requests; returns the results of finished ones. `working` is called before slow
        work."""

    def prefixes(self, numbers: Collection[int]) -> dict[int, list[int]]:
        """The ids with which the outputs of unfinished requests are certain to begin; they only grow."""

    def cancel(self, numbers: Iterable[int]) -> None:
        """Remove requests; unknown ones are ignored."""


def open_translator(
    reference: TranslatorReference,
    device: str = "cpu",
    precision: Precision = "fp32",
    compile_search: CompileChoice = "off",
) -> Translator:
    """The translator of a folder, of the kind that its `model.json` names. Raises InterlinearError, also if it has
    other weights than the reference says: its folder was written again."""
    path = reference.folder / "model.json"
    kind = translator_kind(path)
    if kind not in TRANSLATORS:
        problem = f"there is no translator {kind!r}: there are {', '.join(TRANSLATORS)}"
        raise BundleError(str(path), problem, "install the package that registers it")
    translator: Translator = TRANSLATORS[kind](reference, device, precision, compile_search)
    if reference.weights not in (None, translator.reference.weights):
        raise BundleError(
            str(reference.folder),
            "it has other weights than the service has read",
            "start the service again to serve these, or copy the earlier ones back",
        )
    return translator


def translator_kind(path: Path) -> str:
    """The kind of translator that a `model.json` names. A file that cannot be read is left to the loader of bundles,
    which reports the error."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return "bundle"
    return str(content.get("translator", "bundle")) if isinstance(content, dict) else "bundle"
