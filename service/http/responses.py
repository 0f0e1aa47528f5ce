"""Response types: LibreTranslate's fields, and this service's own."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from interlinear.components import ANSWER_FIELDS
from interlinear.config import Task
from interlinear.explanation import Explanation
from interlinear.translation import language_tags as languages
from interlinear.translation.detection import LanguageGuess
from interlinear.translation.paths import ModelPath
from service.inference.images import MEDIA_TYPES
from service.models import ReverseModel, ServedModel


class ApiResponse(BaseModel):
    """Base class of all responses: immutable, without additional fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelIdentity(ApiResponse):
    """The model that answered."""

    name: str = Field(examples=["de-en"])
    version: str = Field(examples=["3"])
    pivot: "Pivot | None" = Field(None, description="for two models: the language between them, and both")

    @classmethod
    def of(cls, model: ServedModel | ReverseModel) -> "ModelIdentity":
        return cls(name=model.name, version=model.version)

    @classmethod
    def of_path(cls, path: ModelPath[ServedModel]) -> "ModelIdentity":
        """The model of a path, or both with their names and versions joined by `+`."""
        if path.second is None:
            return cls.of(path.first)
        models = [cls.of(path.first), cls.of(path.second)]
        name, version = ("+".join(parts) for parts in ([m.name for m in models], [m.version for m in models]))
        return cls(name=name, version=version, pivot=Pivot(language=path.first.language_pair[1], models=models))


class Pivot(ApiResponse):
    """A language through which a text was translated, and the models into and out of it."""

    language: str = Field(examples=["en"])
    models: list[ModelIdentity]


class LikeliestLanguage(ApiResponse):
    """The most probable language of a text, whether or not it is served."""

    confidence: float = Field(ge=0, le=100, description="percent", examples=[97.3])
    language: str = Field(examples=["fr"])
    name: str = Field(description="English name, or the code if it is not known", examples=["French"])


class Detection(ApiResponse):
    """A served language, with its probability among all languages that the detector knows."""

    confidence: float = Field(
        ge=0, le=100, description="percent; low for a text in a language that is not served", examples=[92.0]
    )
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
    list[str] | list[list[str]] | None, Field(description="on request: further outputs, the best first")
]
Scores = Annotated[
    list[float] | list[list[float]] | None,
    Field(description="with `alternatives`: the score of the answer, then of each alternative"),
]
Explanations = Annotated[list[Explanation] | None, Field(description="with `explain`: one for every text")]


class ResponseWarning(ApiResponse):
    """Something about a text that its answer does not show."""

    code: Literal["long_sentence", "same_language"] = Field(
        description="`long_sentence`: sentences longer than the model reads were translated in parts; `same_language`: "
        "the text is in the target language already, and is returned as it is"
    )
    field: str = Field(description="the text", examples=["q[3]"])
    message: str

    @classmethod
    def same_language(cls, field: str, language: str) -> "ResponseWarning":
        """A text is in the target language already."""
        message = f"the text is in {languages.language_name(language)} already, and is returned as it is"
        return cls(code="same_language", field=field, message=message)

    @classmethod
    def long_sentences(cls, field: str, count: int) -> "ResponseWarning":
        """Sentences of a text were translated in parts."""
        sentences, were = ("a sentence is", "was") if count == 1 else (f"{count} sentences are", "were")
        message = f"{sentences} longer than the model reads, and {were} translated in parts"
        return cls(code="long_sentence", field=field, message=message)


class TranslateResponse(ApiResponse):
    """Response of `/translate` and `/translate/multimodal`.

    If `q` is a list, every value that belongs to one text becomes a list in the same order.
    """

    translatedText: str | list[str] = Field(examples=["A dog is running."])  # noqa: N815
    alternatives: Alternatives = None
    scores: Scores = None
    detectedLanguage: Detection | list[Detection] | None = Field(None, description="for source `auto`")  # noqa: N815
    model: ModelIdentity | list[ModelIdentity] = Field(
        description="a list only if the texts were translated by several models; of a text in the target language "
        "already, a model that translates into it"
    )
    explanations: Explanations = None
    warnings: list[ResponseWarning] | None = Field(None, description="where there is something to say about a text")
    fields: Mapping[str, Any] | list[Mapping[str, Any]] | None = Field(
        None, description="with `fields`: further fields by name"
    )


def described_fields(response: type[TranslateResponse]) -> type[TranslateResponse]:
    """The response with the types of the answer fields that are registered, for OpenAPI."""
    types: dict[str, Any] = {
        name: (field.json_type | None, Field(None, description=(field.__doc__ or "").partition("\n")[0]))
        for name, field in ANSWER_FIELDS.items()
    }
    own = create_model("AnswerFields", __base__=ApiResponse, __doc__="Further fields of an answer, by name.", **types)
    fields: Any = (own | list[own] | None, response.model_fields["fields"])
    return create_model(response.__name__, __base__=response, __doc__=response.__doc__, fields=fields)


class Operation(ApiResponse):
    """An edit operation: a part of the machine translation and its replacement."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)

    op: Literal["keep", "delete", "insert", "replace"]
    before: str = Field(alias="from", description="in the machine translation; empty for `insert`", examples=["laufen"])
    after: str = Field(alias="to", description="in the edited text; empty for `delete`", examples=["läuft"])


class PostEditResponse(ApiResponse):
    """Response of `/post-edit`."""

    editedText: str = Field(examples=["Ein Hund läuft."])  # noqa: N815
    operations: list[Operation] = Field(
        description="from `translation` to `editedText`, in order; the `from`s join to the first, the `to`s to the last"
    )
    alternatives: list[str] | None = Field(None, description="on request: further outputs, the best first")
    scores: list[float] | None = Field(
        None, description="with `alternatives`: the score of the answer, then of each alternative"
    )
    model: ModelIdentity
    explanations: Explanations = None


class Reduction(ApiResponse):
    """The part that was read of a text longer than the model's limit."""

    sentences: int = Field(description="leading sentences that were read", examples=[7])
    of: int = Field(description="sentences in the whole text", examples=[31])
    characters: int = Field(description="characters of the text that were read", examples=[982])


class SummarizeResponse(ApiResponse):
    """Response of `/summarize`. If `text` is a list, every value that belongs to one text becomes a list in the same
    order."""

    summaries: str | list[str] = Field(examples=["Dog runs"])
    alternatives: Alternatives = None
    scores: Scores = None
    reduced: Reduction | list[Reduction | None] | None = Field(
        None, description="with `long: lead`, if a text was reduced; in a list null for a text that was read completely"
    )
    model: ModelIdentity
    explanations: Explanations = None


class Language(ApiResponse):
    """A source or target language."""

    code: str = Field(examples=["de"])
    name: str = Field(examples=["German"])
    targets: list[str] = Field(description="target languages", examples=[["en"]])


class NamedLanguage(ApiResponse):
    """A language with its name."""

    code: str
    name: str


class LanguagePair(ApiResponse):
    """The language pair that a page shows first."""

    source: NamedLanguage
    target: NamedLanguage


class FrontendSettings(ApiResponse):
    """Settings for LibreTranslate's web pages."""

    apiKeys: bool = False  # noqa: N815
    charLimit: int = Field(description="characters of one text")  # noqa: N815
    filesTranslation: bool = False  # noqa: N815
    frontendTimeout: int = Field(description="milliseconds of quiet before a page translates")  # noqa: N815
    keyRequired: bool = False  # noqa: N815
    language: LanguagePair | None = Field(None, description="absent where no model translates")
    suggestions: bool = False
    supportedFilesFormat: list[str] = []  # noqa: N815


class SuggestResponse(ApiResponse):
    """Response of `/suggest`: the suggestion is kept."""

    success: Literal[True] = True


class ModelScore(ApiResponse):
    """A score from the model's card, with the signature that says how it was computed."""

    score: float
    signature: str | None = None


class AcceptedImage(ApiResponse):
    """The images that a model accepts: pictures, or features of their regions."""

    grid: tuple[int, int] = Field(description="rows and columns of image regions")
    pixels: int | None = Field(
        None,
        description="side length to which pictures are scaled; absent if the model reads features instead of pictures",
    )
    media: list[str] = Field(
        description="accepted formats; none if the model reads features", examples=[list(MEDIA_TYPES)]
    )
    max_bytes: int
    max_pixels: int = Field(description="width x height")


class Accepts(ApiResponse):
    """The inputs and options that a model accepts."""

    inputs: list[str] = Field(description="names of the sources", examples=[["source"]])
    texts: list[str] = Field(description="text sources", examples=[["source"]])
    images: dict[str, AcceptedImage] = Field({}, description="image sources")
    max_tokens: int = Field(description="maximum number of tokens of one text")
    max_length: int = Field(description="maximum number of output tokens")
    beam_size: int = Field(description="maximum")
    length_penalty: Literal["none", "average"] | float = Field(
        description="normalisation of a hypothesis' log-probability to its score", examples=["average"]
    )
    explain: list[str] = Field(description="matrices of an explanation", examples=[["attention"]])
    aligned_by: str | None = Field(
        None, description="the matrix whose largest weights are an explanation's `alignment`", examples=["attention"]
    )
    between: list[str] | None = Field(
        None,
        description="the sources, and a sentinel, between which each word's weight is divided",
    )


class ModelDescription(ApiResponse):
    """A served model."""

    status: Literal["current", "loading", "failed", "unchecked"] = Field(
        description="`current`: the version that its name refers to; `loading`: another version is being loaded; "
        "`failed`: another version could not be loaded; `unchecked`: the registry does not answer"
    )
    error: str | None = Field(
        None,
        description="with `failed` and `unchecked`: the error; for a key with the scope `admin` also the reason",
    )
    newer: str | None = Field(None, description="with `loading` and `failed`: the other version")

    engines: list[str] = Field(
        description="the engine workers that serve it now; none while they are restarted", examples=[["cpu"]]
    )

    name: str = Field(examples=["de-en"])
    version: str = Field(examples=["3"])
    aliases: list[str] = Field(examples=[["champion"]])
    task: Task = Field(description="the task, which determines the route", examples=["translation"])
    languages: dict[str, str] = Field(examples=[{"source": "de", "target": "en"}])
    reverse: ModelIdentity | None = Field(
        None, description="the model of the opposite direction, if explanations have the links of both"
    )
    accepts: Accepts
    scores: dict[str, ModelScore]
    recipe: str | None = Field(None, description="name of the recipe", examples=["rnnsearch"])
    dataset: str | None = Field(None, description="name of the training data set", examples=["multi30k-de-en"])
    examples: list[dict[str, str]] = Field(
        description="example texts by source, and images as JPEG files in base64: from its dev set, or else words of "
        "its vocabulary",
        examples=[[{"source": "Ein Hund läuft."}]],
    )
    words: dict[str, int] = Field(
        description="by source: number of words that its vocabulary has as one token", examples=[{"source": 2180}]
    )


class Health(ApiResponse):
    """Status of the service."""

    status: Literal["ok"] = "ok"


class EngineState(ApiResponse):
    """Status of an engine worker: a thread of the service, or a process for each device."""

    name: str = Field(examples=["cuda:0"])
    up: bool = Field(description="false while it is restarted or hangs")
    restarts: int = Field(ge=0, examples=[0])


class Readiness(Health):
    """The service accepts requests, and the status of its engine workers."""

    engines: list[EngineState]
