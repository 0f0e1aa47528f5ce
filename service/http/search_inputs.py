"""The model inputs of a request, and their searches: options, splitting, and reserved queue load."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from interlinear.documents import Document
from interlinear.generation.request import Request
from interlinear.search import SearchOptions
from interlinear.source_names import CONTEXT
from interlinear.translation.paths import ModelPath
from interlinear.translation.pivoting import PIVOT_OUTPUTS, outputs_translated
from interlinear.translation.split_input import SplitInput
from interlinear.translation.splitting import SplitOptions, Step
from service.engine.admission import Reservation
from service.engine.engine import CHARACTERS_PER_TOKEN
from service.http.dependencies import Service
from service.http.requests import GenerateRequest
from service.inference.terms import RequestTerms
from service.models import ServedModel
from service.problems import Problem


@dataclass(frozen=True)
class ModelInput:
    """One input of a model: the model, its texts and images by source name, and the request field of each source.

    `document`: the document that contains the text, if it has markup. `second`: the model that translates the outputs
    of the first, if there is a pivot language. `kept`: the text as it was sent, if it is in the target language
    already.
    """

    model: ServedModel
    texts: Mapping[str, str]
    fields: Mapping[str, str]
    images: Mapping[str, np.ndarray] = field(default_factory=dict)
    document: Document | None = None
    second: ServedModel | None = None
    kept: str | None = None

    @property
    def language_pair(self) -> tuple[str, str]:
        """The languages of the input and the output."""
        return ModelPath(self.model, self.second).language_pair

    @property
    def blank(self) -> bool:
        """Whether there is nothing to search: the answer to a blank or kept text is the text itself."""
        texts = (text for name, text in self.texts.items() if name != CONTEXT)
        return self.kept is not None or not (self.images or any(map(str.strip, texts)))


@dataclass(frozen=True)
class SearchInput:
    """An input with its search, and how its text is split."""

    item: ModelInput
    search: Request
    how: SplitOptions[ServedModel]

    @staticmethod
    def of(service: Service, request: GenerateRequest, item: ModelInput) -> "SearchInput":
        """The search of an input with the options of the request. Raises Problem."""
        n_best = (request.alternatives or 0) + 1
        if item.second is None:
            options, pivot = search_options(request, item.model, n_best), None
        else:
            options = search_options(request, item.model, PIVOT_OUTPUTS, of_pivot=True)
            pivot = Step(item.second, search_options(request, item.second, n_best))
        how = SplitOptions(ServedModel.fits, request.split_mode, request.keeps_formatting, pivot)
        search = Request(
            dict(item.texts),
            options,
            explain=bool(request.explain),
            images=dict(item.images),
            target_prefix=request.output_prefix,
            min_alternative_probability=request.min_alternative_probability,
            fields=request.answer_fields,
        )
        return SearchInput(item, search, how)

    @property
    def characters(self) -> int:
        """Number of characters to split."""
        return sum(map(len, self.search.texts.values()))


def split(terms: RequestTerms, searched: SearchInput) -> SplitInput[ServedModel]:
    """An input as requests for its sentences, with their terms. Raises Problem for contradictory terms, RequestError
    for a target prefix of several sentences."""
    model, document = searched.item.model, searched.item.document
    find_terms = partial(terms.find, model)
    if document is not None:
        return SplitInput.of_markup(model, searched.search, document, searched.how, find_terms)
    return SplitInput.of_text(model, searched.search, searched.how, find_terms)


def reserve_second_searches(
    service: Service, reservation: Reservation, request: GenerateRequest, inputs: Sequence[SplitInput[ServedModel]]
) -> None:
    """Reserve queue load for the second searches of texts that are translated through a pivot language. Raises Problem
    429."""
    sentences = [each.request for one in inputs if one.pivot for each in one.searches]
    if sentences:
        outputs = outputs_translated(len(sentences))
        characters = sum(len(text) for each in sentences for text in each.texts.values())
        tokens = characters // CHARACTERS_PER_TOKEN * (request.beam_size or service.models.least_beam)
        service.engine.reserve_later(reservation, outputs * len(sentences), outputs * tokens)


def search_options(request: GenerateRequest, model: ServedModel, outputs: int, of_pivot: bool = False) -> SearchOptions:
    """The model's search options with the request's overrides, for this number of outputs, at most the model's largest
    beam. `of_pivot`: the outputs are translated further, so the request's length limit does not apply to them. Raises
    Problem."""
    defaults, longest = model.facts.search, model.facts.limits.target_length
    max_length = None if of_pivot else request.max_length
    n_best = min(outputs, model.width)
    beam = max(request.beam_size or defaults.beam, n_best)
    if request.output_prefix is not None and n_best > 1 and not of_pivot:
        beam = model.width  # which the first words after the prefix share
    if beam > model.width:
        raise Problem.in_field("beam_size", f"must be at most {model.width} for {model}")
    if max_length and max_length > longest:
        raise Problem.in_field("max_length", f"must be at most {longest}, the model's limit")
    if max_length and max_length < defaults.min_length:
        raise Problem.in_field("max_length", f"must be at least {defaults.min_length}: the model writes no less")
    changed = {
        "beam": beam,
        "n_best": n_best,
        "length_penalty": request.length_penalty,
        "max_length": max_length,
    }
    overrides = {name: value for name, value in changed.items() if value is not None}
    return SearchOptions.model_validate(defaults.model_dump() | overrides)
