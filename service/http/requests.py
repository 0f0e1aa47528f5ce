"""Request types: LibreTranslate's fields, and this service's own."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, create_model

from interlinear.components import ANSWER_FIELDS
from interlinear.generation.terms import TermOptions
from interlinear.text.sentences import SplitMode, estimated_sentences, fewest_of
from service.http.terms import GlossaryTerm, term_fields, term_options
from service.inference.images import EXAMPLE_IMAGE, Base64Image
from service.inference.markup import MarkupFormat
from service.settings import Settings

S = TypeVar("S", bound="GenerateRequest")

LanguageCode = Annotated[str, Field(max_length=35, pattern=r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*$")]


def _text_tag(value: Any) -> Literal["text", "texts"]:
    return "texts" if isinstance(value, list) else "text"


def _length_penalty_tag(value: Any) -> Literal["word", "number"]:
    return "word" if isinstance(value, str) and value[:1].isalpha() else "number"


LengthPenalty = Annotated[
    Annotated[Literal["none", "average"], Tag("word")]
    | Annotated[float, Field(ge=0, le=10, allow_inf_nan=False), Tag("number")],
    Discriminator(_length_penalty_tag),
]

TextFormat = Annotated[
    Literal["text", "html"] | None,
    Field(
        description="`html`: character references are decoded in the input and written in the output; tags are refused"
    ),
]

MarkupTextFormat = Annotated[
    Literal["text", "html", "xml"] | None,
    Field(
        description="`html`, `xml`: tags stand in the translation where they stood, and around the words that they "
        "enclosed; character references are decoded and written"
    ),
]


def _not_blank(text: str | list[str]) -> str | list[str]:
    if not any(item.strip() for item in ([text] if isinstance(text, str) else text)):
        raise ValueError("must not be blank")
    return text


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


FieldNames = Annotated[list[Annotated[str, AfterValidator(ANSWER_FIELDS.check)]], BeforeValidator(_as_list)]


def check_stored_text(text: str) -> str:
    """Raises ValueError for a text that is blank, or that PostgreSQL cannot store."""
    if not text.strip():
        raise ValueError("must not be blank")
    if "\0" in text:
        raise ValueError("must not have the character U+0000")
    return text


class ApiRequest(BaseModel):
    """Fields that all requests have."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    example: ClassVar[dict[str, str | int | bool]]
    repeatable_fields: ClassVar[frozenset[str]] = frozenset()  # fields that a form may repeat
    file_field: ClassVar[str | None] = None  # field that may be a file in a multipart form

    api_key: str | None = Field(None, max_length=512, description="API key, if the service requires one")

    @classmethod
    def names(cls) -> list[str]:
        """The names of the fields, required ones first."""
        return sorted(cls.model_fields, key=lambda name: not cls.model_fields[name].is_required())

    @property
    def retained_bytes(self) -> int:
        """Bytes of the body that are kept until the request is answered. Texts are limited separately."""
        return 0


class GenerateRequest(ApiRequest):
    """Search options that all generating requests have."""

    past_tense: ClassVar[str]  # the task's verb for error messages, such as "translated"

    alternatives: int | None = None
    beam_size: int | None = None
    length_penalty: LengthPenalty | None = Field(
        None, description="`none`, `average` (by length), or the exponent of GNMT's penalty; default: the model's"
    )
    max_length: int | None = Field(
        None, ge=1, le=10_000, description="maximum number of output tokens; default: the model's"
    )
    model: str | None = Field(
        None, min_length=1, max_length=200, description="`name`, `name@alias` or `name@version`; default: the first fit"
    )
    explain: bool | None = Field(None, description="include attention weights and alignments in the response")

    @classmethod
    def limited_fields(cls, settings: Settings) -> dict[str, Any]:
        """The fields whose limits come from the service's settings, as `create_model` takes them."""
        return {
            "alternatives": (
                Annotated[int, Field(ge=0)] | None,
                Field(
                    None,
                    description=f"number of further outputs for each text; {settings.beam - 1} at most are returned",
                ),
            ),
            "beam_size": (
                Annotated[int, Field(ge=1, le=settings.beam)] | None,
                Field(None, description="hypotheses that the search keeps; default: the model's"),
            ),
        }

    @property
    def many(self) -> bool:
        """Whether the response has lists."""
        return False

    @property
    def markup(self) -> MarkupFormat | None:
        """The format of input and output texts, None for plain text."""
        return None

    @property
    def term_options(self) -> TermOptions | None:
        """The options for finding terms in the texts; None if they have no terms."""
        return None

    @property
    def kept_glossary(self) -> str | None:
        """The id of a glossary that the service keeps, whose terms are found too."""
        return None

    @property
    def answer_fields(self) -> tuple[str, ...]:
        """Names of further fields of the answer."""
        return ()

    @property
    def output_prefix(self) -> str | None:
        """The text that the output begins with."""
        return None

    @property
    def min_alternative_probability(self) -> float:
        """The least probability of an alternative's first token after that text."""
        return 0.0

    @property
    def split_mode(self) -> SplitMode:
        """How texts are split into sentences."""
        return "1"

    @property
    def keeps_formatting(self) -> bool:
        """Whether outputs begin and end as their sentences do."""
        return False

    @property
    def context_text(self) -> str | None:
        """A text that helps to understand the texts; it has no output."""
        return None

    @property
    def units(self) -> int:
        """Number of texts that quotas and rate limits count."""
        return 1

    @property
    def input_texts(self) -> list[str]:
        """The input texts."""
        return []

    def min_sentences(self, texts: Sequence[str], most: int) -> int:
        """A lower bound on the number of sentences to search for `texts`, found without segmenting them. Counting stops
        once it exceeds `most`."""
        return 1 if texts or not self.input_texts else 0

    def estimate_sentences(self, texts: Sequence[str]) -> int:
        """The approximate number of sentences to search for `texts`, found without segmenting them."""
        return self.min_sentences(texts, len(texts))


class TextsRequest(GenerateRequest):
    """A text or a list of texts."""

    text_field: ClassVar[str]  # name of the field with the text or the list of texts

    @classmethod
    def limited_fields(cls, settings: Settings) -> dict[str, Any]:
        text = Annotated[str, Field(min_length=1, max_length=settings.characters), Tag("text")]
        item = Annotated[str, Field(max_length=settings.characters)]
        texts = Annotated[list[item], Field(min_length=1, max_length=settings.texts), Tag("texts")]
        kind = Annotated[Annotated[text | texts, Discriminator(_text_tag)], AfterValidator(_not_blank)]
        description = Field(description="a text, or a list of texts; blank texts in a list are returned unchanged")
        return {cls.text_field: (kind, description)} | super().limited_fields(settings)

    @property
    def content(self) -> str | list[str]:
        """The value of the text field."""
        text: str | list[str] = getattr(self, self.text_field)
        return text

    @property
    def texts(self) -> list[str]:
        return [self.content] if isinstance(self.content, str) else self.content

    @property
    def many(self) -> bool:
        return not isinstance(self.content, str)

    @property
    def units(self) -> int:
        return len(self.texts)

    @property
    def input_texts(self) -> list[str]:
        return self.texts

    def min_sentences(self, texts: Sequence[str], most: int) -> int:
        return sum(1 for text in texts if text.strip())

    def estimate_sentences(self, texts: Sequence[str]) -> int:
        return sum(map(estimated_sentences, texts))


class TranslateRequest(TextsRequest):
    """A text or a list of texts, and how to translate them."""

    example: ClassVar[dict[str, str | int | bool]] = {
        "q": "Ein Hund läuft.",
        "source": "de",
        "target": "en",
        "alternatives": 2,
        "explain": True,
    }
    text_field: ClassVar[str] = "q"
    repeatable_fields: ClassVar[frozenset[str]] = frozenset({"q", "do_not_translate", "fields"})
    past_tense: ClassVar[str] = "translated"

    q: str | list[str]
    source: LanguageCode = Field(description="the language of `q`, or `auto`")
    target: LanguageCode = Field(description="the language to translate into")
    format: MarkupTextFormat = None
    split_sentences: SplitMode | None = Field(
        None,
        description="`1` (the default): at punctuation and line breaks; `nonewlines`: at punctuation only; `0`: not, "
        "but a text that is longer than the model reads is translated in parts",
    )
    preserve_formatting: bool | None = Field(
        None, description="marks at begin and end of a sentence, and the case of its first letter, as in the source"
    )
    context: str | None = None
    glossary: list[GlossaryTerm] | None = None
    glossary_id: str | None = Field(
        None, min_length=1, max_length=100, description="a glossary of `/glossaries`; a term in `glossary` has priority"
    )
    do_not_translate: str | list[str] | None = None
    protect: bool | None = Field(
        None,
        description="keep URLs, e-mail addresses, placeholders, inline tags, emoji, and numbers with units as they "
        "are; default: true",
    )
    target_prefix: str | None = None
    min_alternative_expansion_prob: float | None = Field(
        None,
        ge=0,
        le=1,
        description="with `target_prefix`: alternatives whose first token after it is less probable are left out; "
        "default: 0",
    )
    fields: FieldNames | None = Field(
        None, max_length=100, description="names of further fields of the answer, of packages that are installed"
    )

    @classmethod
    def limited_fields(cls, settings: Settings) -> dict[str, Any]:
        about_prefix = "the text with which the translation of one sentence begins; the rest is translated anew. The "
        about_prefix += "`alternatives` then differ in the first word after it, also after an empty one, in JSON"
        about_context = (
            "a text that helps to translate `q`, and is not translated; for models that were trained with one"
        )
        text = Annotated[str, Field(max_length=settings.characters)] | None
        fields = {
            "target_prefix": (text, Field(None, description=about_prefix)),
            "context": (text, Field(None, description=about_context)),
        }
        return super().limited_fields(settings) | fields | term_fields(settings)

    @property
    def markup(self) -> MarkupFormat | None:
        return None if self.format == "text" else self.format

    @property
    def kept_glossary(self) -> str | None:
        return self.glossary_id

    @property
    def answer_fields(self) -> tuple[str, ...]:
        return tuple(self.fields or ())

    @property
    def output_prefix(self) -> str | None:
        return self.target_prefix

    @property
    def min_alternative_probability(self) -> float:
        return self.min_alternative_expansion_prob or 0.0

    @property
    def term_options(self) -> TermOptions:
        return term_options(self.glossary, self.do_not_translate, self.protect)

    @property
    def split_mode(self) -> SplitMode:
        return self.split_sentences or "1"

    @property
    def keeps_formatting(self) -> bool:
        return bool(self.preserve_formatting)

    @property
    def context_text(self) -> str | None:
        return self.context if self.context and self.context.strip() else None

    def min_sentences(self, texts: Sequence[str], most: int) -> int:
        # Tags are no text, and character references may become white space.
        if self.markup or self.split_mode != "1":
            return super().min_sentences(texts, most)
        return fewest_of(texts, most)


class SummarizeRequest(TextsRequest):
    """A text or a list of texts, and how to summarize them."""

    example: ClassVar[dict[str, str | int | bool]] = {
        "text": "A dog is running in the park.",
        "alternatives": 2,
        "explain": True,
    }
    text_field: ClassVar[str] = "text"
    repeatable_fields: ClassVar[frozenset[str]] = frozenset({"text"})
    past_tense: ClassVar[str] = "summarized"

    text: str | list[str]
    long: Literal["refuse", "lead"] | None = Field(
        None,
        description="a text longer than the model's limit is refused (the default) or, with `lead`, reduced to as "
        "many of its leading sentences as fit",
    )


class MultimodalRequest(GenerateRequest):
    """A text and the picture that it goes with, or one of them, and how to translate."""

    example: ClassVar[dict[str, str | int | bool]] = {
        "q": "A dog is running.",
        "image": EXAMPLE_IMAGE,
        "source": "en",
        "target": "de",
        "explain": True,
    }
    text_field: ClassVar[str] = "q"
    file_field: ClassVar[str | None] = "image"
    past_tense: ClassVar[str] = "translated"

    q: str | None = None
    image: Base64Image | None = None
    source: LanguageCode = Field(description="the language of `q`, or `auto`")
    target: LanguageCode = Field(description="the language to translate into")
    format: TextFormat = None

    @property
    def markup(self) -> MarkupFormat | None:
        return "html" if self.format == "html" else None

    @property
    def retained_bytes(self) -> int:
        return len(self.image or b"")

    @property
    def input_texts(self) -> list[str]:
        return [] if self.q is None else [self.q]

    @classmethod
    def limited_fields(cls, settings: Settings) -> dict[str, Any]:
        description = "a text; may be absent if there is a picture"
        image_description = f"a JPEG, PNG or WebP in base64, at most {settings.image_bytes:,} bytes of at most "
        image_description += f"{settings.image_pixels:,} pixels; may be absent if there is a text"
        return {
            "q": (_text(settings) | None, Field(None, description=description)),
            "image": (Base64Image | None, Field(None, description=image_description)),
        } | super().limited_fields(settings)


class PostEditRequest(GenerateRequest):
    """A machine translation, the text that it was made of, and how to edit it."""

    example: ClassVar[dict[str, str | int | bool]] = {
        "source_text": "A dog is running.",
        "translation": "Ein Hund laufen.",
        "source": "en",
        "target": "de",
        "explain": True,
    }
    past_tense: ClassVar[str] = "edited"

    translation: str
    source: LanguageCode = Field(description="the language of `source_text`")
    target: LanguageCode = Field(description="the language of `translation`")
    source_text: str | None = None

    @property
    def input_texts(self) -> list[str]:
        return [self.translation, self.source_text or ""]

    @classmethod
    def limited_fields(cls, settings: Settings) -> dict[str, Any]:
        description = "the source of the translation; optional"
        return {
            "translation": (_text(settings), Field(description="the machine translation to edit")),
            "source_text": (_text(settings) | None, Field(None, description=description)),
        } | super().limited_fields(settings)


class DetectRequest(ApiRequest):
    """A text whose language is to be detected."""

    example: ClassVar[dict[str, str | int | bool]] = {"q": "Ein Hund läuft."}

    q: str


def _text(settings: Settings) -> Any:
    """The type of a text, limited by the service's settings."""
    return Annotated[str, Field(min_length=1, max_length=settings.characters), AfterValidator(_not_blank)]


def with_limits(kind: type[S], settings: Settings) -> type[S]:
    """A request type with the limits of the service's settings, so that OpenAPI states them."""
    return create_model(kind.__name__, __base__=kind, __doc__=kind.__doc__, **kind.limited_fields(settings))


def detect_request_with_limits(settings: Settings) -> type[DetectRequest]:
    """`DetectRequest` with the limits of the service's settings."""
    return create_model(
        "DetectRequest", __base__=DetectRequest, __doc__=DetectRequest.__doc__, q=(_text(settings), ...)
    )
