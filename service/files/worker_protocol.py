"""Messages between the service and its document processes, as lines of JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from typing import Any, Literal

from interlinear.documents.formats import ReadOptions
from interlinear.documents.inline import AlignedText
from interlinear.generation.terms import GlossaryEntry, Term, TermOptions
from interlinear.translation.sentences import Sentence

READ_AS_IT_IS = ReadOptions()

Step = Literal["beginning", "sentences", "written"]


@dataclass(frozen=True)
class DocumentRequest:
    """The first line that a process reads.

    step: the answer that it asks for: the document's `beginning`, a text from which its language is detected; its
    `sentences` (`write_split`); or the document `written` with their translations, which are further lines of the
    input. name: the document's name, whose suffix names the format. characters: the length of the beginning, or the
    limit of all texts. sentences: the limit of sentences.
    source, target: the languages of the text and the translation. terms: the term options of the texts. options: how to
    read the document.
    """

    step: Step
    name: str
    characters: int
    sentences: int = 0
    source: str = ""
    target: str = ""
    terms: TermOptions | None = None
    options: ReadOptions = READ_AS_IT_IS


def write_request(request: DocumentRequest) -> bytes:
    """A request as a line."""
    return json.dumps(asdict(request)).encode()


def read_request(line: str | bytes) -> DocumentRequest:
    """A request from its line."""
    fields: dict[str, Any] = json.loads(line)
    if terms := fields["terms"]:
        terms["glossary"] = tuple(GlossaryEntry(*entry) for entry in terms["glossary"])
        terms["do_not_translate"] = tuple(terms["do_not_translate"])
        fields["terms"] = TermOptions(**terms)
    options = fields.pop("options")
    return DocumentRequest(**fields, options=ReadOptions(tuple(options["keys"]), options["encoding"]))


def write_split(warnings: Sequence[str], sentences: Sequence[Sentence]) -> bytes:
    """The warnings for readers of the document's translation, and its sentences: a line, and one for each."""
    return b"\n".join([json.dumps(warnings).encode(), *map(write_sentence, sentences)])


def read_split(answer: bytes) -> tuple[list[str], list[Sentence]]:
    """The warnings and the sentences of a document."""
    first, *lines = answer.splitlines()
    return json.loads(first), list(map(read_sentence, lines))


def write_sentence(sentence: Sentence) -> bytes:
    """A sentence as a line."""
    text, terms, *others = sentence
    return json.dumps([text, [astuple(term) for term in terms], *others]).encode()


def read_sentence(line: str | bytes) -> Sentence:
    """A sentence from its line."""
    text, terms, *others = json.loads(line)
    return Sentence(text, tuple(Term(*term) for term in terms), *others)


def write_aligned(aligned: AlignedText) -> bytes:
    """The translation of a sentence as a line."""
    return json.dumps([aligned.text, aligned.source_words, aligned.target_words, aligned.links]).encode()


def read_aligned(line: str | bytes) -> AlignedText:
    """The translation of a sentence from its line."""
    text, *pairs = json.loads(line)
    return AlignedText(text, *([(a, b) for a, b in each] for each in pairs))
