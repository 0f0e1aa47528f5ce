"""Requests as they travel: LibreTranslate's, and what we are asked more."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag, create_model

from seq2seq.text.sentences import fewest_of
from service.inference.images import EXAMPLE, Picture
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


Format = Annotated[
    Literal["text", "html"] | None,
    Field(description="`html`: character references are read, and written in what is answered; tags are refused"),
]


def _not_blank(text: str | list[str]) -> str | list[str]:
    if not any(one.strip() for one in ([text] if isinstance(text, str) else text)):
        raise ValueError("must not be blank")
    return text


class Asked(BaseModel):
    """What every request may carry."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    example: ClassVar[dict[str, str | int | bool]]
    repeated: ClassVar[str | None] = None  # what a form may give several times
    file: ClassVar[str | None] = None  # what a multipart form may give as a file

    api_key: str | None = Field(None, max_length=512, description="a key, where the service asks for one")

    @classmethod
    def names(cls) -> list[str]:
        """The fields, those that are required first."""
        return sorted(cls.model_fields, key=lambda name: not cls.model_fields[name].is_required())

    @property
    def held(self) -> int:
        """Bytes of the body that are kept until it is answered; texts are bounded otherwise."""
        return 0


class SearchRequest(Asked):
    """How to search for what is written."""

    done: ClassVar[str]  # what is done to what is given

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

    @classmethod
    def limits(cls, settings: Settings) -> dict[str, Any]:
        """The fields that a service's settings bound, as `create_model` takes them."""
        return {
            "alternatives": (
                Annotated[int, Field(ge=0, lt=settings.beam)] | None,
                Field(None, description="further answers to each text: fewer than `beam_size`"),
            ),
            "beam_size": (
                Annotated[int, Field(ge=1, le=settings.beam)] | None,
                Field(None, description="hypotheses that the search keeps; default: the model's"),
            ),
        }

    @property
    def many(self) -> bool:
        """Whether it is answered by lists."""
        return False

    @property
    def html(self) -> bool:
        """Whether texts are HTML, as they come and as they go."""
        return False

    @property
    def count(self) -> int:
        """Texts that a quota and a rate count."""
        return 1

    @property
    def written(self) -> list[str]:
        """The texts that it gives."""
        return []

    def fewest(self, texts: Sequence[str], most: int) -> int:
        """How many texts are searched for these of its own at least, as far as can be said without work; counted to
        more than `most`, and no further."""
        return 1 if texts or not self.written else 0


class TextsRequest(SearchRequest):
    """A text or a list of texts."""

    field: ClassVar[str]  # where the text is, or the texts

    @classmethod
    def limits(cls, settings: Settings) -> dict[str, Any]:
        text = Annotated[str, Field(min_length=1, max_length=settings.characters), Tag("text")]
        item = Annotated[str, Field(max_length=settings.characters)]
        texts = Annotated[list[item], Field(min_length=1, max_length=settings.texts), Tag("texts")]
        kind = Annotated[Annotated[text | texts, Discriminator(_is_list)], AfterValidator(_not_blank)]
        said = Field(description="a text, or a list of texts; a blank one in a list is answered as it is")
        return {cls.field: (kind, said)} | super().limits(settings)

    @property
    def given(self) -> str | list[str]:
        """The field that holds the text."""
        text: str | list[str] = getattr(self, self.field)
        return text

    @property
    def texts(self) -> list[str]:
        return [self.given] if isinstance(self.given, str) else self.given

    @property
    def many(self) -> bool:
        return not isinstance(self.given, str)

    @property
    def count(self) -> int:
        return len(self.texts)

    @property
    def written(self) -> list[str]:
        return self.texts

    def fewest(self, texts: Sequence[str], most: int) -> int:
        return sum(1 for text in texts if text.strip())


class TranslateRequest(TextsRequest):
    """A text or a list of texts, and how to translate them."""

    example: ClassVar[dict[str, str | int | bool]] = {
        "q": "Ein Hund läuft.",
        "source": "de",
        "target": "en",
        "alternatives": 2,
        "explain": True,
    }
    field: ClassVar[str] = "q"
    repeated: ClassVar[str | None] = "q"
    done: ClassVar[str] = "translated"

    q: str | list[str]
    source: Code = Field(description="the language of `q`, or `auto`")
    target: Code = Field(description="the language to translate into")
    format: Format = None

    @property
    def html(self) -> bool:
        return self.format == "html"

    def fewest(self, texts: Sequence[str], most: int) -> int:
        if self.html:  # of which references may become white space
            return super().fewest(texts, most)
        return fewest_of(texts, most)


class SummarizeRequest(TextsRequest):
    """A text or a list of texts, and how to summarize them."""

    example: ClassVar[dict[str, str | int | bool]] = {
        "text": "A dog is running in the park.",
        "alternatives": 2,
        "explain": True,
    }
    field: ClassVar[str] = "text"
    repeated: ClassVar[str | None] = "text"
    done: ClassVar[str] = "summarized"

    text: str | list[str]
    long: Literal["refuse", "lead"] | None = Field(
        None,
        description="a text that is longer than the model reads is refused (the default), or `lead`: reduced to as "
        "many of its leading sentences as it reads",
    )


class MultimodalRequest(SearchRequest):
    """A text and the picture that it goes with, or one of them, and how to translate."""

    example: ClassVar[dict[str, str | int | bool]] = {
        "q": "A dog is running.",
        "image": EXAMPLE,
        "source": "en",
        "target": "de",
        "explain": True,
    }
    file: ClassVar[str | None] = "image"
    done: ClassVar[str] = "translated"

    q: str | None = None
    image: Picture | None = None
    source: Code = Field(description="the language of `q`, or `auto`")
    target: Code = Field(description="the language to translate into")
    format: Format = None

    @property
    def html(self) -> bool:
        return self.format == "html"

    @property
    def held(self) -> int:
        return len(self.image or b"")

    @property
    def written(self) -> list[str]:
        return [] if self.q is None else [self.q]

    @classmethod
    def limits(cls, settings: Settings) -> dict[str, Any]:
        said = "a text; may be absent where there is a picture"
        seen = f"a JPEG, PNG or WebP in base64, at most {settings.image_bytes:,} bytes of at most "
        seen += f"{settings.image_pixels:,} pixels; may be absent where there is a text"
        return {
            "q": (_text(settings) | None, Field(None, description=said)),
            "image": (Picture | None, Field(None, description=seen)),
        } | super().limits(settings)


class PostEditRequest(SearchRequest):
    """A machine translation, the text that it was made of, and how to edit it."""

    example: ClassVar[dict[str, str | int | bool]] = {
        "source_text": "A dog is running.",
        "translation": "Ein Hund laufen.",
        "source": "en",
        "target": "de",
        "explain": True,
    }
    done: ClassVar[str] = "edited"

    translation: str
    source: Code = Field(description="the language of `source_text`")
    target: Code = Field(description="the language of `translation`")
    source_text: str | None = None

    @property
    def written(self) -> list[str]:
        return [self.translation, self.source_text or ""]

    @classmethod
    def limits(cls, settings: Settings) -> dict[str, Any]:
        said = "what was translated; without it the model does without"
        return {
            "translation": (_text(settings), Field(description="the machine translation that is to be edited")),
            "source_text": (_text(settings) | None, Field(None, description=said)),
        } | super().limits(settings)


class DetectRequest(Asked):
    """A text whose language is asked for."""

    example: ClassVar[dict[str, str | int | bool]] = {"q": "Ein Hund läuft."}

    q: str


def _text(settings: Settings) -> Any:
    """The type of a text with a service's own limits."""
    return Annotated[str, Field(min_length=1, max_length=settings.characters), AfterValidator(_not_blank)]


def search_request(kind: type[S], settings: Settings) -> type[S]:
    """A kind of request with a service's own limits, so that OpenAPI says them."""
    return create_model(kind.__name__, __base__=kind, __doc__=kind.__doc__, **kind.limits(settings))


def detect_request(settings: Settings) -> type[DetectRequest]:
    """DetectRequest with a service's own limits."""
    return create_model(
        "DetectRequest", __base__=DetectRequest, __doc__=DetectRequest.__doc__, q=(_text(settings), ...)
    )
