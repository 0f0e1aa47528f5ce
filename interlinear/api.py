"""The functions of `import interlinear` for a trained model: load it by its name, translate and align with it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Literal

from interlinear.alignment.links import Alignment, alignment_from
from interlinear.bundle import Bundle
from interlinear.bundle import load as load_folder
from interlinear.config import Precision
from interlinear.documents import parse_html, parse_xml
from interlinear.errors import RequestError
from interlinear.generation.forced_decoding import ForcedDecoder
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.generation.terms import GlossaryEntry, TermFinder, TermOptions
from interlinear.models.model import Model
from interlinear.models.protocol import EncoderDecoder
from interlinear.registry.resolve import fetch_bundle
from interlinear.search import SearchOptions
from interlinear.translation.answer_fields import check_fields
from interlinear.translation.offline import OfflineModel, search
from interlinear.translation.split_input import SplitInput, no_terms
from interlinear.translation.splitting import SplitOptions


def load(
    name: str | Path,
    device: str = "cpu",
    precision: Precision = "fp32",
    shortlist: bool = False,
    tracking: str | None = None,
) -> Bundle[Model]:
    """The bundle of a model: a folder, or a name of the registry, e.g. `models:/de-en@champion`.

    device: as torch names it. shortlist: search among the tokens of its shortlist, on a CPU several times faster.
    tracking: the MLflow store, by default as for the command.

    Raises UsageError, RegistryError, BundleError.
    """
    return load_folder(fetch_bundle(str(name), tracking).folder, device, precision, shortlist)


def translate(
    bundle: Bundle[EncoderDecoder],
    texts: Iterable[str],
    markup: Literal["html", "xml"] | None = None,
    explain: bool = False,
    options: SearchOptions | None = None,
    glossary: Mapping[str, str] | None = None,
    fields: Sequence[str] = (),
) -> list[GenerationResult]:
    """The outputs for texts, in their order, each best first. A text is split into sentences; with markup, the tags go
    with their words. A headline model summarizes.

    explain: add attention and alignments in `explanation`, except for markup. options: of the search, by default the
    model's. glossary: exact translations by source term. fields: names of further fields of the results, except for
    markup.

    Raises UsageError for an unknown field, RequestError for a text that the model cannot read, DataError for malformed
    XML.
    """
    check_fields(fields, "fields")
    options = options or bundle.card.search
    model = OfflineModel(SequenceGenerator(bundle, width=options.beam))
    how = SplitOptions(OfflineModel.fits)
    terms = TermOptions(tuple(GlossaryEntry(*entry) for entry in (glossary or {}).items()), (), bundle.takes_terms)
    find = TermFinder(terms, model.language_pair[0]).find if terms.given or terms.protect else no_terms
    request = Request({}, options, explain, fields=tuple(fields))
    inputs = [
        SplitInput.of_text(model, replace(request, texts={model.source: text}), how, find)
        if markup is None
        else SplitInput.of_markup(model, request, (parse_html if markup == "html" else parse_xml)(text), how, find)
        for text in texts
    ]
    outcomes = search(model, None, (each for split in inputs for each in split.searches))
    return [split.merge_answers(without_errors(islice(outcomes, len(split.searches)))) for split in inputs]


def without_errors(outcomes: Iterable[GenerationResult | RequestError]) -> list[GenerationResult]:
    """Raises the first error."""
    answers = []
    for outcome in outcomes:
        if isinstance(outcome, RequestError):
            raise outcome
        answers.append(outcome)
    return answers


def align(bundle: Bundle[EncoderDecoder], pairs: Iterable[tuple[str, str]]) -> list[Alignment]:
    """The links between the words of sentences and their translations, by forced decoding with the model.

    Raises RequestError for a pair that is too long.
    """
    decoder, name, kept = ForcedDecoder(bundle), bundle.card.model.first_text, list(pairs)
    for source, target in kept:
        decoder.check_lengths(source, target)
    return [alignment_from(each) for each in decoder.align(({name: source}, target) for source, target in kept)]
