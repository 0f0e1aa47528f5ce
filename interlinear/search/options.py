"""Options of a search, its requests and its results."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from interlinear.components import PROCESSORS
from interlinear.models.attention_weights import AttentionWeights

LONGEST = 10_000  # tokens of a source or an output: the largest limit that can be set
GNMT_OFFSET = 5  # Wu et al. 2016, equation 14: lp(Y) = ((5 + |Y|) / (5 + 1)) ** alpha


class SearchOptions(BaseModel):
    """Search options of one sentence."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    beam: int = Field(5, ge=1, le=64, description="hypotheses kept at each step; 1 is greedy search")
    length_penalty: Literal["none", "average"] | Annotated[float, Field(ge=0, le=10)] = Field(
        "average",
        description="log-probabilities are summed, averaged over the words, or divided as GNMT with this alpha",
    )
    n_best: int = Field(1, ge=1, le=64, description="outputs wanted, at most the beam")
    min_length: int = Field(0, ge=0, le=LONGEST, description="words at least, in the vocabulary's units")
    max_length: int | None = Field(None, ge=1, le=LONGEST, description="words at most; by default 2 x source + 10")
    shrinking: bool = Field(False, description="each finished hypothesis shrinks the beam by one, until none is left")
    coverage_penalty: float = Field(
        0.0, ge=0, description="GNMT's beta: a penalty on source words with little attention"
    )
    post_editing_penalty: float = Field(
        0.0, ge=0, le=100, description="subtracted from the log-probability of each word that is in no input text"
    )
    post_editing_confidence: float = Field(
        0.0,
        ge=0,
        le=1,
        description="an output whose tokens are less probable (geometric mean) is replaced by the machine translation",
    )
    repetition_guard: bool = Field(True, description="no word is written a second time for the same source word")
    no_repeat_ngram_size: int = Field(0, ge=0, le=10, description="no n-gram of this size is repeated; 0 allows all")
    repetition_penalty: float = Field(
        1.0,
        ge=1,
        le=10,
        description="factor of the log-probability of each token that the output has already; 1 is none",
    )
    replace_unknown: bool = Field(False, description="an unknown word becomes the source word with most attention")
    processors: tuple[Annotated[str, AfterValidator(PROCESSORS.check)], ...] = Field(
        (), description="further features of search, which packages of your own have registered"
    )

    @model_validator(mode="after")
    def _n_best(self) -> Self:
        if self.n_best > self.beam:
            raise ValueError(f"n_best: {self.n_best} outputs cannot come from a beam of {self.beam}")
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(f"min_length: {self.min_length} is more than max_length {self.max_length}")
        return self

    @property
    def length_penalty_terms(self) -> tuple[float, float]:
        """Exponent of the length penalty, and the offset that is added to a length."""
        if isinstance(self.length_penalty, float):
            return self.length_penalty, GNMT_OFFSET
        return (1.0, 0.0) if self.length_penalty == "average" else (0.0, 0.0)

    def score(self, log_probability: float, length: int) -> float:
        """The ranking score of an output from its log-probability and number of tokens (both with END)."""
        exponent, offset = self.length_penalty_terms
        return float(log_probability * ((offset + 1) / (offset + length)) ** exponent)

    def output_limit(self, source: int) -> int:
        """Maximum number of output tokens for a source of `source` tokens."""
        return self.max_length if self.max_length is not None else 2 * source + 10


@dataclass(frozen=True)
class Constraint:
    """Token ids that an output contains, one after the other.

    positions: the source positions [start, end) of the words that it stands for, where attention must be when it
    begins (Hasler et al. 2018); None: it may begin anywhere.
    """

    ids: tuple[int, ...]
    positions: tuple[int, int] | None = None


@dataclass(frozen=True)
class TargetPrefix:
    """Token ids that an output begins with.

    new_word: the word after them does not continue their last word. alternatives: outputs differ in this first word.
    """

    ids: tuple[int, ...]
    new_word: bool = True
    alternatives: bool = False


@dataclass(frozen=True)
class Hypothesis:
    """A finished output: token ids without END, ranking score, and log-probability (END included).

    constraints: for each token the index of the request's constraint that it writes, None for another token; empty if
    the request has none.
    """

    ids: list[int]
    score: float
    log_probability: float
    constraints: Sequence[int | None] = ()


@dataclass(frozen=True)
class SearchResult:
    """Result of one sentence: its hypotheses, best first; if requested their attention weights (1, n, L, T), and the
    log-probability of each of their tokens (END excluded), given the tokens before it."""

    key: Hashable
    hypotheses: list[Hypothesis]
    attention_weights: AttentionWeights | None = None
    token_log_probabilities: list[list[float]] | None = None


@dataclass(frozen=True)
class SearchRequest:
    """A sentence to search for: key, options, maximum number of tokens, whether to return attention weights, and the
    tokens that the output must contain and begin with: at most `max_length` together.

    input_words: with a post-editing penalty, the ids of the target's vocabulary that are not penalised: the tokens of
    the inputs, and the special symbols. source_words: for the repetition guard, the index of the word at each position
    of the first source, -1 for none, also behind the last. with_spares: also return finished hypotheses beyond the
    n-best, up to the beam, since several hypotheses may be one text.
    """

    key: Hashable
    options: SearchOptions
    max_length: int
    with_attention: bool = False
    constraints: tuple[Constraint, ...] = ()
    prefix: TargetPrefix | None = None
    input_words: frozenset[int] = frozenset()
    source_words: tuple[int, ...] = ()
    with_spares: bool = False

    @property
    def wanted(self) -> int:
        """The maximum number of hypotheses that are returned."""
        return self.options.beam if self.with_spares else self.options.n_best

    @property
    def constrained(self) -> bool:
        """Whether its output must contain or begin with given tokens."""
        return bool(self.constraints) or self.prefix is not None

    @property
    def shrinks(self) -> bool:
        """Whether each finished hypothesis shrinks the beam. It does not where outputs differ in the first word after a
        prefix: each branch needs its share of the beam."""
        return self.options.shrinking and not (self.prefix is not None and self.prefix.alternatives)

    @property
    def required_tokens(self) -> int:
        """The number of tokens that its output must contain or begin with."""
        return sum(len(each.ids) for each in self.constraints) + (len(self.prefix.ids) if self.prefix else 0)
