"""Requests and answers as they travel: LibreTranslate's, and what we answer more."""

from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, create_model

from seq2seq.bundle import Task
from seq2seq.looks import Explanation
from service.settings import Settings

S = TypeVar("S", bound="SearchRequest")

Code = Annotated[str, Field(max_length=16, pattern=r"^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$")]


def _is_list(value: Any) -> Literal["text", "texts"]:
    return "texts" if isinstance(value, list) else "text"


def _is_word(value: Any) -> Literal["word", "number"]:
    return "word" if isinstance(value, str) and value[:1].isalpha() else "number"


Penalty = Annotated[
    Annotated[Literal["none", "average"], Tag("word")]
    | Annotated[float, Field(ge=0, le=10, allow_inf_nan=False), Tag("number")],
    Discriminator(_is_word),
]


def _not_blank(text: str | list[str]) -> str | list[str]:
    if not any(one.strip() for one in ([text] if isinstance(text, str) else text)):
        raise ValueError("must not be blank")
    return text


class Asked(BaseModel):
    """What every request may carry."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    example: ClassVar[dict[str, str | int | bool]]
    field: ClassVar[str] = "q"  # where the text is, or the texts

    api_key: str | None = Field(None, max_length=512, description="accepted and not needed: this service asks for none")

    @classmethod
    def names(cls) -> list[str]:
        """The fields, those that are required first."""
        return sorted(cls.model_fields, key=lambda name: not cls.model_fields[name].is_required())


class SearchRequest(Asked):
    """A text or a list of texts, and how to search for what is written of each."""

    done: ClassVar[str]  # what is done to a text

    alternatives: int | None = None
    beam_size: int | None = None
    length_penalty: Penalty | None = Field(
        None, description="`none`, `average` (by length), or the exponent of GNMT's penalty; default: the model's"
    )
    max_length: int | None = Field(None, ge=1, le=10_000, description="most tokens of an answer; default: the model's")
    model: str | None = Field(
        None, min_length=1, max_length=200, description="`name`, `name@alias` or `name@version`; default: the first fit"
    )
    explain: bool | None = Field(None, description="answer with what every word looked at")

    @property
    def given(self) -> str | list[str]:
        """The field that holds the text."""
        text: str | list[str] = getattr(self, self.field)
        return text

    @property
    def texts(self) -> list[str]:
        return [self.given] if isinstance(self.given, str) else self.given


class TranslateRequest(SearchRequest):
    """A text or a list of texts, and how to translate them."""

    example: ClassVar[dict[str, str | int | bool]] = {
        "q": "Ein Hund läuft.",
        "source": "de",
        "target": "en",
        "alternatives": 2,
        "explain": True,
    }
    done: ClassVar[str] = "translated"

    q: str | list[str]
    source: Code = Field(description="the language of `q`, or `auto`")
    target: Code = Field(description="the language to translate into")
    format: Literal["text"] | None = Field(None, description="plain text; markup (`html`) is refused")


class SummarizeRequest(SearchRequest):
    """A text or a list of texts, and how to summarize them."""

    example: ClassVar[dict[str, str | int | bool]] = {
        "text": "A dog is running in the park.",
        "alternatives": 2,
        "explain": True,
    }
    field: ClassVar[str] = "text"
    done: ClassVar[str] = "summarized"

    text: str | list[str]


class DetectRequest(Asked):
    """A text whose language is asked for."""

    example: ClassVar[dict[str, str | int | bool]] = {"q": "Ein Hund läuft."}

    q: str


def search_request(kind: type[S], settings: Settings) -> type[S]:
    """A kind of request with a service's own limits, so that OpenAPI says them."""
    text = Annotated[str, Field(min_length=1, max_length=settings.characters), Tag("text")]
    item = Annotated[str, Field(max_length=settings.characters)]
    texts = Annotated[list[item], Field(min_length=1, max_length=settings.texts), Tag("texts")]
    limited: dict[str, Any] = {
        kind.field: (
            Annotated[Annotated[text | texts, Discriminator(_is_list)], AfterValidator(_not_blank)],
            Field(description="a text, or a list of texts; a blank one in a list is answered as it is"),
        ),
        "alternatives": (
            Annotated[int, Field(ge=0, lt=settings.beam)] | None,
            Field(None, description="further answers to each text: fewer than `beam_size`"),
        ),
        "beam_size": (
            Annotated[int, Field(ge=1, le=settings.beam)] | None,
            Field(None, description="hypotheses that the search keeps; default: the model's"),
        ),
    }
    return create_model(kind.__name__, __base__=kind, __doc__=kind.__doc__, **limited)


def detect_request(settings: Settings) -> type[DetectRequest]:
    """DetectRequest with a service's own limits."""
    text = Annotated[str, Field(min_length=1, max_length=settings.characters), AfterValidator(_not_blank)]
    return create_model("DetectRequest", __base__=DetectRequest, __doc__=DetectRequest.__doc__, q=(text, ...))


class Answered(BaseModel):
    """Answers are closed and frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelIdentity(Answered):
    """Who answered."""

    name: str = Field(examples=["de-en"])
    version: str = Field(examples=["3"])


class Detection(Answered):
    """A language, and how sure it is among the languages served."""

    confidence: float = Field(ge=0, le=100, description="percent", examples=[92.0])
    language: str = Field(examples=["de"])


Alternatives = Annotated[
    list[str] | list[list[str]] | None, Field(description="when asked for: the next best, the best first")
]
Scores = Annotated[
    list[float] | list[list[float]] | None,
    Field(description="with `alternatives`: what ranked the answer and then each alternative"),
]
Explanations = Annotated[list[Explanation] | None, Field(description="with `explain`: one for every text")]


class TranslateResponse(Answered):
    """What `/translate` answers. Where `q` was a list, everything that belongs to one text is a list in its order."""

    translatedText: str | list[str] = Field(examples=["A dog is running."])  # noqa: N815
    alternatives: Alternatives = None
    scores: Scores = None
    detectedLanguage: Detection | list[Detection] | None = Field(None, description="for source `auto`")  # noqa: N815
    model: ModelIdentity | list[ModelIdentity] = Field(description="a list only where the texts went to several models")
    explanations: Explanations = None


class SummarizeResponse(Answered):
    """What `/summarize` answers. Where `text` was a list, what belongs to one text is a list in its order."""

    summaries: str | list[str] = Field(examples=["Dog runs"])
    alternatives: Alternatives = None
    scores: Scores = None
    model: ModelIdentity
    explanations: Explanations = None


class Language(Answered):
    """A language that is translated from or into."""

    code: str = Field(examples=["de"])
    name: str = Field(examples=["German"])
    targets: list[str] = Field(description="what it can be translated into", examples=[["en"]])


class NamedLanguage(Answered):
    """A language."""

    code: str
    name: str


class LanguagePair(Answered):
    """What a page shows first."""

    source: NamedLanguage
    target: NamedLanguage


class FrontendSettings(Answered):
    """What LibreTranslate's pages ask for."""

    apiKeys: bool = False  # noqa: N815
    charLimit: int = Field(description="characters of one text")  # noqa: N815
    filesTranslation: bool = False  # noqa: N815
    frontendTimeout: int = Field(description="milliseconds of quiet before a page translates")  # noqa: N815
    keyRequired: bool = False  # noqa: N815
    language: LanguagePair | None = Field(None, description="absent where no model translates")
    suggestions: bool = False
    supportedFilesFormat: list[str] = []  # noqa: N815


class ModelScore(Answered):
    """A score from the model's card, with the signature that says how it was computed."""

    score: float
    signature: str | None = None


class Accepts(Answered):
    """What a model takes."""

    inputs: list[str] = Field(description="its sources", examples=[["source"]])
    max_tokens: int = Field(description="of one text")
    max_length: int = Field(description="tokens of an answer")
    beam_size: int = Field(description="widest")
    explain: list[str] = Field(description="matrices of an explanation", examples=[["attention"]])


class ModelDescription(Answered):
    """A model that is served."""

    status: Literal["current", "loading", "failed", "unchecked"] = Field(
        description="whether it is what its name means: `current`; `loading`: another version is loaded beside it; "
        "`failed`: another version could not be; `unchecked`: the registry does not answer"
    )
    error: str | None = Field(None, description="with `failed` and `unchecked`: why")
    newer: str | None = Field(None, description="with `loading` and `failed`: the other version")

    name: str = Field(examples=["de-en"])
    version: str = Field(examples=["3"])
    aliases: list[str] = Field(examples=[["champion"]])
    task: Task = Field(description="which route it answers", examples=["translation"])
    languages: dict[str, str] = Field(examples=[{"source": "de", "target": "en"}])
    accepts: Accepts
    scores: dict[str, ModelScore]
    recipe: str | None = Field(None, description="what it was trained by", examples=["rnnsearch"])
    dataset: str | None = Field(None, description="what it was trained on", examples=["multi30k-de-en"])


class Health(Answered):
    """Whether the service lives, or answers."""

    status: Literal["ok"] = "ok"
