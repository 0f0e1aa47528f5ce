"""Answers as they travel: LibreTranslate's, and what we answer more."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from seq2seq.bundle import Task
from seq2seq.explain import Explanation
from service.inference import languages
from service.inference.detection import LanguageGuess
from service.inference.images import MEDIA_TYPES


class ApiResponse(BaseModel):
    """Answers are closed and frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelIdentity(ApiResponse):
    """Who answered."""

    name: str = Field(examples=["de-en"])
    version: str = Field(examples=["3"])


class LikeliestLanguage(ApiResponse):
    """The language that a text seems to be in, served or not."""

    confidence: float = Field(ge=0, le=100, description="percent", examples=[97.3])
    language: str = Field(examples=["fr"])
    name: str = Field(description="in English; the code where it is not known", examples=["French"])


class Detection(ApiResponse):
    """A language served, and how sure the detector is of it among all languages that it knows."""

    confidence: float = Field(ge=0, le=100, description="percent; low for a text in none served", examples=[92.0])
    language: str = Field(examples=["de"])
    likeliest: LikeliestLanguage | None = Field(
        None, description="the likeliest of all languages that the detector knows, where it is not `language`"
    )

    @classmethod
    def of(cls, guess: LanguageGuess) -> "Detection":
        likeliest = guess.likeliest and LikeliestLanguage(
            confidence=percent(guess.likeliest.probability),
            language=guess.likeliest.language,
            name=languages.language_name(guess.likeliest.language),
        )
        return cls(confidence=percent(guess.probability), language=guess.language, likeliest=likeliest)


def percent(probability: float) -> float:
    return round(100 * probability, 1)


Alternatives = Annotated[
    list[str] | list[list[str]] | None, Field(description="when asked for: the next best, the best first")
]
Scores = Annotated[
    list[float] | list[list[float]] | None,
    Field(description="with `alternatives`: what ranked the answer and then each alternative"),
]
Explanations = Annotated[list[Explanation] | None, Field(description="with `explain`: one for every text")]


class TranslateResponse(ApiResponse):
    """What `/translate` and `/translate/multimodal` answer.

    Where `q` was a list, everything that belongs to one text is a list in its order.
    """

    translatedText: str | list[str] = Field(examples=["A dog is running."])  # noqa: N815
    alternatives: Alternatives = None
    scores: Scores = None
    detectedLanguage: Detection | list[Detection] | None = Field(None, description="for source `auto`")  # noqa: N815
    model: ModelIdentity | list[ModelIdentity] = Field(description="a list only where the texts went to several models")
    explanations: Explanations = None


class Operation(ApiResponse):
    """A part of the machine translation, and what stands in its place."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    op: Literal["keep", "delete", "insert", "replace"]
    before: str = Field(alias="from", description="in the machine translation; empty for `insert`", examples=["laufen"])
    after: str = Field(alias="to", description="in the edited text; empty for `delete`", examples=["läuft"])


class PostEditResponse(ApiResponse):
    """What `/post-edit` answers."""

    editedText: str = Field(examples=["Ein Hund läuft."])  # noqa: N815
    operations: list[Operation] = Field(
        description="from `translation` to `editedText`, in order: the `from`s joined are the one, the `to`s the other"
    )
    alternatives: list[str] | None = Field(None, description="when asked for: the next best, the best first")
    scores: list[float] | None = Field(
        None, description="with `alternatives`: what ranked the answer and then each alternative"
    )
    model: ModelIdentity
    explanations: Explanations = None


class Reduction(ApiResponse):
    """What was read of a text that was longer than the model reads."""

    sentences: int = Field(description="leading sentences that were read", examples=[7])
    of: int = Field(description="sentences of the whole text", examples=[31])
    characters: int = Field(description="of the text, as far as it was read", examples=[982])


class SummarizeResponse(ApiResponse):
    """What `/summarize` answers. Where `text` was a list, what belongs to one text is a list in its order."""

    summaries: str | list[str] = Field(examples=["Dog runs"])
    alternatives: Alternatives = None
    scores: Scores = None
    reduced: Reduction | list[Reduction | None] | None = Field(
        None, description="with `long: lead`, where a text was reduced; in a list null for one that was read whole"
    )
    model: ModelIdentity
    explanations: Explanations = None


class Language(ApiResponse):
    """A language that is translated from or into."""

    code: str = Field(examples=["de"])
    name: str = Field(examples=["German"])
    targets: list[str] = Field(description="what it can be translated into", examples=[["en"]])


class NamedLanguage(ApiResponse):
    """A language."""

    code: str
    name: str


class LanguagePair(ApiResponse):
    """What a page shows first."""

    source: NamedLanguage
    target: NamedLanguage


class FrontendSettings(ApiResponse):
    """What LibreTranslate's pages ask for."""

    apiKeys: bool = False  # noqa: N815
    charLimit: int = Field(description="characters of one text")  # noqa: N815
    filesTranslation: bool = False  # noqa: N815
    frontendTimeout: int = Field(description="milliseconds of quiet before a page translates")  # noqa: N815
    keyRequired: bool = False  # noqa: N815
    language: LanguagePair | None = Field(None, description="absent where no model translates")
    suggestions: bool = False
    supportedFilesFormat: list[str] = []  # noqa: N815


class ModelScore(ApiResponse):
    """A score from the model's card, with the signature that says how it was computed."""

    score: float
    signature: str | None = None


class AcceptedImage(ApiResponse):
    """A picture as a model takes it, or the features of one."""

    grid: tuple[int, int] = Field(description="rows and columns of the regions that it is looked at in")
    pixels: int | None = Field(
        None, description="a picture is brought to so many a side; absent where only features are read, not pictures"
    )
    media: list[str] = Field(
        description="formats that are read; none where only features are", examples=[list(MEDIA_TYPES)]
    )
    max_bytes: int
    max_pixels: int = Field(description="width x height")


class Accepts(ApiResponse):
    """What a model takes."""

    inputs: list[str] = Field(description="its sources", examples=[["source"]])
    texts: list[str] = Field(description="those that are text", examples=[["source"]])
    images: dict[str, AcceptedImage] = Field({}, description="those that are pictures")
    max_tokens: int = Field(description="of one text")
    max_length: int = Field(description="tokens of an answer")
    beam_size: int = Field(description="widest")
    length_penalty: Literal["none", "average"] | float = Field(
        description="what a hypothesis' log-probability is divided by to give its score", examples=["average"]
    )
    explain: list[str] = Field(description="matrices of an explanation", examples=[["attention"]])
    between: list[str] | None = Field(
        None, description="what an explanation weighs against each other for every word: sources, and a sentinel"
    )


class ModelDescription(ApiResponse):
    """A model that is served."""

    status: Literal["current", "loading", "failed", "unchecked"] = Field(
        description="whether it is what its name means: `current`; `loading`: another version is loaded beside it; "
        "`failed`: another version could not be; `unchecked`: the registry does not answer"
    )
    error: str | None = Field(
        None,
        description="with `failed` and `unchecked`: what is wrong; for a key with the scope `admin` also why",
    )
    newer: str | None = Field(None, description="with `loading` and `failed`: the other version")

    engines: list[str] = Field(
        description="where it is searched with it now; none while what searched is started again", examples=[["cpu"]]
    )

    name: str = Field(examples=["de-en"])
    version: str = Field(examples=["3"])
    aliases: list[str] = Field(examples=[["champion"]])
    task: Task = Field(description="which route it answers", examples=["translation"])
    languages: dict[str, str] = Field(examples=[{"source": "de", "target": "en"}])
    accepts: Accepts
    scores: dict[str, ModelScore]
    recipe: str | None = Field(None, description="what it was trained by", examples=["rnnsearch"])
    dataset: str | None = Field(None, description="what it was trained on", examples=["multi30k-de-en"])
    examples: list[dict[str, str]] = Field(
        description="texts that it can be tried with, by source: of its dev set, or else words of its vocabulary",
        examples=[[{"source": "Ein Hund läuft."}]],
    )
    words: dict[str, int] = Field(
        description="by source: words that its vocabulary has as one piece", examples=[{"source": 2180}]
    )


class Health(ApiResponse):
    """Whether the service lives, or answers."""

    status: Literal["ok"] = "ok"


class EngineState(ApiResponse):
    """What searches: a thread of the service's, or a process for each device."""

    name: str = Field(examples=["cuda:0"])
    up: bool = Field(description="false while it is started again, or hangs")
    restarts: int = Field(ge=0, examples=[0])


class Readiness(Health):
    """The service answers, and by what."""

    engines: list[EngineState]
