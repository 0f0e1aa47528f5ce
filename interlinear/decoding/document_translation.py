"""Translation of documents: their texts sentence by sentence, in batches over the whole file."""

import os
import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from documents import AlignedText, DocumentFile, Segment
from documents.files import ARCHIVE_READERS, read_file, suffix_of, written_suffix
from documents.inline import join_aligned
from documents.text_formats.values import ReadOptions
from interlinear.console import FAILED, progress, say
from interlinear.decoding.glossary import FindTerms
from seq2seq.errors import RequestError, UsageError
from seq2seq.formatted_output import format_result
from seq2seq.generate import SequenceGenerator
from seq2seq.generation_request import GenerationResult, Request
from seq2seq.search import SearchOptions
from seq2seq.text.formatting import Edges, edges_of_parts
from seq2seq.text.long_sentences import divide
from seq2seq.text.sentences import sentence_separators, split_sentences_by_line


@dataclass(frozen=True)
class SplitSegment:
    """A segment, and the character spans of its sentences, or of their parts where the model cannot read them whole;
    for each which edges of the output are made like its own."""

    segment: Segment
    spans: Sequence[tuple[int, int]]
    edges: Sequence[Edges]

    @staticmethod
    def of(
        segment: Segment,
        language: str | None,
        fits: Callable[[str], bool],
        find_terms: FindTerms | None = None,
    ) -> "SplitSegment":
        """Split the text of a segment. `fits`: whether the model can read a sentence; terms are not divided."""
        text, spans, edges = segment.text, [], []
        for start, end in split_sentences_by_line(text, language):
            if fits(text[start:end]):
                parts = [(start, end)]
            else:
                terms = find_terms(text[start:end]) if find_terms else ()
                kept = [(start + term.start, start + term.end) for term in terms]
                parts = divide(text, (start, end), lambda span: fits(text[slice(*span)]), kept)
            spans += parts
            edges += edges_of_parts(len(parts))
        return SplitSegment(segment, spans, edges)

    @property
    def sentences(self) -> list[str]:
        return [self.segment.text[start:end] for start, end in self.spans]

    def explained(self) -> Iterator[str]:
        """The sentences whose words must be aligned, because a tag has an edge among them."""
        for start, end in self.spans:
            if self.segment.has_edge_inside(start, end):
                yield self.segment.text[start:end]


@dataclass(frozen=True)
class TranslatedDocument:
    """A document's file with its translation, and the sentences that the model could not read, which stay."""

    content: bytes
    problems: dict[str, str]


def translate_document(
    generation: SequenceGenerator,
    file: DocumentFile,
    options: SearchOptions,
    progress: Callable[[Iterable[GenerationResult | RequestError], int], Iterator[GenerationResult | RequestError]],
    find_terms: FindTerms | None = None,
) -> TranslatedDocument:
    """Translate a document. Equal sentences are searched once; those with tags among their words are explained.

    `progress` passes the answers through, and gets their number. `find_terms`: the terms of a sentence.
    """
    card = generation.bundle.card
    name, source, target = card.model.first_text, card.languages.get("source"), card.languages.get("target")

    @cache
    def request_for(sentence: str) -> Request:
        return Request({name: sentence}, options, terms=find_terms(sentence) if find_terms else ())

    @cache
    def problem_of(sentence: str) -> str | None:
        try:
            generation.encode(request_for(sentence))
        except RequestError as error:
            return error.problem
        return None

    def fits(text: str) -> bool:
        return problem_of(text) is None

    split = [SplitSegment.of(segment, source, fits, find_terms) for segment in file.segments]
    explained = {sentence for part in split for sentence in part.explained()}
    sentences = list(dict.fromkeys(sentence for part in split for sentence in part.sentences))
    requests = [replace(request_for(sentence), explain=sentence in explained) for sentence in sentences]
    answers = progress(generation.generate(requests), len(requests))
    answered = dict(zip(sentences, answers, strict=True))
    problems = {sentence: answer.problem for sentence, answer in answered.items() if isinstance(answer, RequestError)}
    tokenizer = generation.bundle.tokenizers["target"]

    @cache
    def translated(sentence: str, edges: Edges) -> AlignedText:
        answer = answered[sentence]
        if not isinstance(answer, RequestError) and (edges.begin or edges.end):
            answer = format_result(answer, sentence, edges, tokenizer, target)
        return aligned(sentence, answer)

    translations = [
        join_aligned(
            list(map(translated, part.sentences, part.edges)),
            sentence_separators(part.segment.text, part.spans, target),
            [start for start, _ in part.spans],
        )
        for part in split
    ]
    return TranslatedDocument(file.render(translations, target or "und"), problems)


def aligned(sentence: str, answer: GenerationResult | RequestError) -> AlignedText:
    """A sentence's translation with its links; without an explanation both are linked as a whole."""
    if isinstance(answer, RequestError):
        return AlignedText.of_parts(sentence, [(0, len(sentence))], [(0, len(sentence))])
    text, explanation = answer.candidates[0].text, answer.explanation
    if explanation is None or not explanation.source or not explanation.target:
        return AlignedText.of_parts(text, [(0, len(sentence))], [(0, len(text))] if text else [])
    source, target = ([(word.start, word.end) for word in words] for words in (explanation.source, explanation.target))
    return AlignedText(text, source, target, explanation.alignment)


def document_to_translate(
    files: Sequence[Path], output: Path, unused: Mapping[str, object], options: ReadOptions
) -> DocumentFile:
    """The document that a call with --output names, before a model is loaded. Raises UsageError for options that a
    document does not have, DataError for a document that cannot be read."""
    if given := next((option for option, value in unused.items() if value), None):
        raise UsageError(given, "it is for lines, and --output writes a document", "leave one of them out")
    if len(files) != 1:
        raise UsageError("--output", "it takes one document", "name one input file")
    check_output(files[0], output)
    return read_file(files[0], options)


def check_lines(files: Sequence[Path]) -> None:
    """Raises UsageError for a file that has no lines of text, by its suffix."""
    for file in files:
        if file.suffix.lower() in ARCHIVE_READERS:
            name = f"{file.stem}.translated{written_suffix(file.name)}"
            raise UsageError(
                str(file), "it is a document, and not lines of text", f"say where to write it: -o {shlex.quote(name)}"
            )


def check_output(file: Path, output: Path) -> None:
    """Raises UsageError if a document cannot be written there, DataError for one of an unknown format."""
    written = written_suffix(file.name)
    if output.suffix.lower() != written.lower():
        problem = f"{output.name} has not the suffix of {file.name}, and a document keeps its format"
        if written.lower() != suffix_of(file.name):
            problem = f"{output.name} has not the suffix {written}, as which {file.name} is written"
        raise UsageError("--output", problem, f"name it {output.with_suffix(written).name}")
    if output.is_dir() or not output.absolute().parent.is_dir():
        problem = "is a folder" if output.is_dir() else "is in a folder that does not exist"
        raise UsageError("--output", f"{output} {problem}", "name a file in an existing folder")
    if output.exists() and output.samefile(file):
        raise UsageError("--output", f"{output} is the document itself", "name another file")


def write_at_once(path: Path, content: bytes) -> None:
    """Write a file that is there completely or, after an error, as it was."""
    handle, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        mask = os.umask(0)
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_translation(
    generation: SequenceGenerator,
    document: DocumentFile,
    options: SearchOptions,
    output: Path,
    find_terms: FindTerms | None,
) -> int:
    """Translate a document and write it; returns the exit code."""
    if (task := generation.bundle.card.task) != "translation":
        raise UsageError("--output", f"documents are translated, and this is a model for {task}", "name another model")
    translated = translate_document(
        generation, document, options, lambda answers, total: progress(answers, "translating", total), find_terms
    )
    write_at_once(output, translated.content)
    for sentence, problem in translated.problems.items():
        say(f"{sentence[:60]!r}: {problem}. The sentence stays.")
    for warning in document.warnings:
        say(f"{warning}; it is not translated.")
    return FAILED if translated.problems else 0
