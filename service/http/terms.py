"""The fields of a request that prescribe how terms are translated."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag
from typing_extensions import TypedDict

from interlinear.generation.terms import GlossaryEntry, TermOptions
from service.settings import Settings


class GlossaryTerm(TypedDict):
    """A term in the source language, and what stands for it in the translation."""

    source: str
    target: str


def _list_tag(value: Any) -> Literal["text", "list"]:
    return "text" if isinstance(value, str) else "list"


def _read_lines(value: Any) -> Any:
    """The entries of a text with a source, a tab and a target on each line, as a list; other values unchanged."""
    if not isinstance(value, str):
        return value
    rows = [line.split("\t") for line in value.splitlines() if line.strip()]
    if any(len(row) != 2 for row in rows):
        raise ValueError("must have a source, a tab and a target on each line")
    return [{"source": source, "target": target} for source, target in rows]


def term_fields(settings: Settings) -> dict[str, Any]:
    """The fields with the limits of the service's settings, as `create_model` takes them."""
    text = Annotated[str, Field(min_length=1, max_length=settings.term_characters)]
    term: Any = TypedDict("GlossaryTerm", {"source": text, "target": text})  # type: ignore[name-match]
    terms = Annotated[list[term], Field(max_length=settings.terms), BeforeValidator(_read_lines)]
    texts = Annotated[list[text], Field(max_length=settings.terms), Tag("list")]
    return {
        "glossary": (
            terms | None,
            Field(
                None,
                description="terms that are translated as given: a list of `source` and `target`, in a form lines with "
                "a tab between both; inflected forms are found too",
            ),
        ),
        "do_not_translate": (
            Annotated[Annotated[text, Tag("text")] | texts, Discriminator(_list_tag)] | None,
            Field(None, description="what stays as it is in the translation; in a form it may be repeated"),
        ),
    }


def term_options(
    glossary: Sequence[GlossaryTerm] | None, do_not_translate: str | Sequence[str] | None, protect: bool | None
) -> TermOptions:
    """The term options of a request."""
    entries = tuple(GlossaryEntry(entry["source"], entry["target"]) for entry in glossary or ())
    kept = (do_not_translate,) if isinstance(do_not_translate, str) else tuple(do_not_translate or ())
    return TermOptions(entries, kept, protect is not False)
