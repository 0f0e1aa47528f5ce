"""Requests for generation, as text and as ids, and their outputs."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from interlinear.explanation import Explanation
from interlinear.generation.target_prefix import EncodedPrefix
from interlinear.generation.terms import Term, only_terms
from interlinear.search import Constraint, SearchOptions
from interlinear.source_names import CONTEXT, MT
from interlinear.text import Encoded
from interlinear.text.casing import Case
from interlinear.text.words import Span


@dataclass(frozen=True)
class Request:
    """Model inputs by source name, and the search options.

    A model with several sources accepts requests without some of them, but needs at least one. An image is uint8
    pixels (S, S, 3) or features of regions (T, F), depending on the model's `ImageGrid`. `tokenised` names the texts
    (and `target`) whose words are separated by spaces, independent of the model's training data; the others are raw.
    `terms`: spans of the first text, in its order, with the exact text that stands for each in the output.
    `target_prefix`: the text that outputs begin with; the continuation begins a new word. Several outputs (`n_best`)
    then differ in the first word after it, also after an empty one; `min_alternative_probability`: the lowest
    probability of that word's first token in all outputs but the best.
    `explain`: explain the best output; `explain_all`: with it, every output. `fields`: names of fields of the answer
    (`interlinear.translation.answer_fields`).
    """

    texts: dict[str, str]
    options: SearchOptions
    explain: bool = False
    tokenised: frozenset[str] = frozenset()
    images: dict[str, np.ndarray] = field(default_factory=dict)
    terms: tuple[Term, ...] = ()
    target_prefix: str | None = None
    min_alternative_probability: float = 0.0
    explain_all: bool = False
    fields: tuple[str, ...] = ()

    @property
    def is_copied(self) -> bool:
        """Whether its text is its own translation and is not searched: it has no letters outside terms that stay
        unchanged."""
        texts = [text for name, text in self.texts.items() if name != CONTEXT]
        if self.target_prefix is not None or not all(text.strip() for text in texts):
            return False
        return bool(texts) and only_terms(texts[0], self.terms) and all(only_terms(text, ()) for text in texts[1:])

    @property
    def copied_from(self) -> str:
        """The source whose text a copied request outputs."""
        return MT if MT in self.texts else next(name for name in self.texts if name != CONTEXT)


@dataclass(frozen=True)
class EncodedRequest:
    """A request with its texts as ids.

    length: positions of the longest source (tokens with the end symbol, or regions).
    positions: positions of all sources together.
    max_length: maximum number of output tokens.
    prefix: its target prefix. terms: the terms that the prefix does not contain; constraints: their tokens.
    aligns_terms: some terms are numbers, or words that the model cannot read, and alignment places all terms in an
    output. case: of its first text, if the model reads it in another case, to which outputs are restored.

    A request whose text is its own translation, by `Request.is_copied` or because no word of it is known, has no
    sources.
    """

    request: Request
    sources: dict[str, Encoded]
    length: int
    positions: int
    max_length: int
    constraints: tuple[Constraint, ...] = ()
    terms: tuple[Term, ...] = ()
    prefix: EncodedPrefix | None = None
    aligns_terms: bool = False
    case: Case | None = None

    @property
    def cost(self) -> int:
        """Tokens x beam."""
        return self.length * self.request.options.beam

    @property
    def is_copied(self) -> bool:
        """Whether the text is the output, without a search."""
        return not self.sources and not self.request.images

    @property
    def may_stay_unedited(self) -> bool:
        """Whether the machine translation may be the answer: not where the caller gives words that the output must
        contain."""
        asked = self.request.options.post_editing_confidence > 0 and MT in self.request.texts
        return asked and self.request.target_prefix is None and not self.request.terms

    @property
    def required_ids(self) -> list[int]:
        """The tokens that an output must contain: of the prefix, and of terms."""
        return [*(self.prefix.encoded.ids if self.prefix else []), *(i for each in self.constraints for i in each.ids)]


@dataclass(frozen=True)
class Candidate:
    """One output. `score` is the log-probability divided by the length penalty; `ids` exclude the end symbol.

    `terms`: the request's terms in the order of the output, with their spans in it; `explanation`: set if every output
    is explained.
    """

    text: str
    score: float
    log_probability: float
    ids: list[int]
    terms: tuple[tuple[Term, Span], ...] = ()
    explanation: Explanation | None = None

    @property
    def mean_probability(self) -> float:
        """The geometric mean of the probabilities of its tokens, the end symbol included."""
        return math.exp(self.log_probability / (len(self.ids) + 1))


@dataclass(frozen=True)
class GenerationResult:
    """A request's outputs, best first, and the explanation of the best one and further fields if requested."""

    candidates: list[Candidate]
    explanation: Explanation | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
