"""Terms of `interlinear translate`: glossary files, texts that are not translated, and finding them in lines."""

from collections.abc import Sequence
from pathlib import Path

from interlinear.bundle import Bundle
from interlinear.errors import RequestError, UsageError
from interlinear.generation.terms import GlossaryEntry, TermFinder, TermOptions
from interlinear.generation.terms.entries import parse_entries
from interlinear.models.protocol import EncoderDecoder
from interlinear.translation.split_input import FindTerms
from training.data.text_lines import read_file


def terms_finder(
    bundle: Bundle[EncoderDecoder],
    glossary: Path | None,
    do_not_translate: Sequence[str] | None,
    protect: bool,
    tokenised: bool,
) -> FindTerms | None:
    """The function that finds terms in a line; None if there is nothing to find. Text that is protected by its form is
    not found if the model takes no terms, and in tokenised text.

    Raises UsageError for terms that the model or the text cannot have, DataError for a malformed file.
    """
    entries = tuple(read_glossary(glossary)) if glossary else ()
    given = "--glossary" if glossary else "--do-not-translate" if do_not_translate else None
    if given and tokenised:
        raise UsageError(given, "terms are found in raw text", "leave --tokenised out")
    if given and not bundle.takes_terms:
        raise UsageError(given, "the model takes no terms: it edits texts, or reads pictures first")
    options = TermOptions(entries, tuple(do_not_translate or ()), protect and not tokenised and bundle.takes_terms)
    if not options.given and not options.protect:
        return None
    try:
        return TermFinder(options, bundle.card.languages.get(bundle.card.model.first_text)).find
    except RequestError as error:
        raise UsageError(f"--{error.where.replace('_', '-')}", error.problem, error.remedy) from None


def read_glossary(path: Path) -> list[GlossaryEntry]:
    """The entries of a file: with commas between source and target if its name ends in .csv, else with tabs.

    Raises DataError, located at the line, for a line without both, and for one that cannot be read.
    """
    lines = (f"{line}\n" for line in read_file(path))
    return list(parse_entries(lines, "csv" if path.suffix.lower() == ".csv" else "tsv", str(path)))
