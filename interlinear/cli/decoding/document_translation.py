"""Translation of documents: their texts sentence by sentence, in batches over the whole file."""

import os
import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from interlinear.cli.console import FAILED, progress, say
from interlinear.components import DOCUMENT_FORMATS
from interlinear.documents import DocumentFile
from interlinear.documents.files import read_file, suffix_of, written_suffix
from interlinear.documents.formats import ReadOptions
from interlinear.errors import RequestError, UsageError
from interlinear.generation.request import Request
from interlinear.search import SearchOptions
from interlinear.translation.offline import OfflineModel, Outcome, search
from interlinear.translation.split_input import FindTerms, SplitInput, no_terms
from interlinear.translation.splitting import SplitOptions


@dataclass(frozen=True)
class TranslatedDocument:
    """A document's file with its translation, and the sentences that the model could not read, which stay."""

    content: bytes
    problems: dict[str, str]


def translate_document(
    model: OfflineModel,
    file: DocumentFile,
    options: SearchOptions,
    progress: Callable[[Iterable[Outcome], int], Iterator[Outcome]],
    how: SplitOptions[OfflineModel],
    find_terms: FindTerms | None = None,
) -> TranslatedDocument:
    """Translate a document. Equal sentences are searched once; sentences with tags between their words are explained.

    `progress` passes the answers through, and gets their number. `find_terms`: the terms of a text.
    """
    split = SplitInput.of_segments(model, Request({}, options), file.segments, how, find_terms or no_terms)
    searches = split.searches
    outcomes = list(progress(search(model, how.pivot, searches), len(searches)))
    answers = [None if isinstance(each, RequestError) else each for each in outcomes]
    problems = {
        each.request.texts[model.source]: outcome.problem
        for each, outcome in zip(searches, outcomes, strict=True)
        if isinstance(outcome, RequestError)
    }
    target = split.last.model.language_pair[1] or "und"
    return TranslatedDocument(file.render(split.align_segments(split.formatted(answers)), target), problems)


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
        file_format = DOCUMENT_FORMATS.get(file.suffix.lower())
        if file_format and file_format.is_archive:
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
    """Write a file atomically: complete or, after an error, unchanged."""
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
    model: OfflineModel,
    document: DocumentFile,
    options: SearchOptions,
    output: Path,
    how: SplitOptions[OfflineModel],
    find_terms: FindTerms | None,
) -> int:
    """Translate a document and write it; returns the exit code."""
    if model.task != "translation":
        raise UsageError(
            "--output", f"documents are translated, and this is a model for {model.task}", "name another model"
        )
    translated = translate_document(
        model, document, options, lambda answers, total: progress(answers, "translating", total), how, find_terms
    )
    write_at_once(output, translated.content)
    for warning in document.warnings:
        say(warning)
    for sentence, problem in translated.problems.items():
        say(f"{sentence[:60]!r}: {problem}. The sentence stays.")
    for warning in document.warnings:
        say(f"{warning}; it is not translated.")
    return FAILED if translated.problems else 0
