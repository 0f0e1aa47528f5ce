"""Searches of a whole input in this process, also through a pivot language."""

from collections.abc import Iterable, Iterator, Sequence

from interlinear.bundle import ModelCard
from interlinear.config import Task
from interlinear.errors import RequestError, UsageError
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.text.formatting import is_usually_small
from interlinear.translation.language_tags import tag_distance
from interlinear.translation.pivoting import SecondSearches, pivot_text, translated_further
from interlinear.translation.splitting import Search, Step

Outcome = GenerationResult | RequestError


class OfflineModel:
    """A model that searches in this process; a `TranslationModel`."""

    def __init__(self, generation: SequenceGenerator) -> None:
        self.generation = generation

    @property
    def task(self) -> Task:
        return self.generation.bundle.card.task

    @property
    def source(self) -> str:
        return self.generation.bundle.card.model.first_text

    @property
    def language_pair(self) -> tuple[str | None, str | None]:
        languages = self.generation.bundle.card.languages
        return languages.get("source"), languages.get("target")

    def is_usually_small(self, word: str) -> bool:
        """Whether a word of the target language is written with a small letter inside a sentence."""
        return is_usually_small(word, self.generation.bundle.tokenizers["target"], self.language_pair[1])

    def fits(self, request: Request) -> bool:
        """Whether the text of a request, and its terms, are within the model's limits."""
        return self.generation.request_encoder.fits(request)

    def __str__(self) -> str:
        return "the model"


def search(
    model: OfflineModel, pivot: Step[OfflineModel] | None, searches: Iterable[Search[OfflineModel] | RequestError]
) -> Iterator[Outcome]:
    """The outcomes of searches with these models, in order; an element that is an error is yielded unchanged. Without a
    pivot language they are read lazily, as `SequenceGenerator.generate` does."""
    if pivot is None:
        requests = (each if isinstance(each, RequestError) else each.request for each in searches)
        yield from model.generation.generate(requests)
        return
    kept = list(searches)
    first = (each if isinstance(each, RequestError) else each.first[1] for each in kept)
    yield from search_again(pivot.model, kept, list(model.generation.generate(first)))


def search_again(
    model: OfflineModel, searches: Sequence[Search[OfflineModel] | RequestError], outcomes: Sequence[Outcome]
) -> list[Outcome]:
    """The outcomes of first searches, translated further by the second model."""
    answered = [
        (i, each, outcome)
        for i, (each, outcome) in enumerate(zip(searches, outcomes, strict=True))
        if isinstance(each, Search) and isinstance(outcome, GenerationResult)
    ]
    further = translated_further([each for _, each, _ in answered], [outcome for *_, outcome in answered])
    second = SecondSearches([each for _, each, _ in answered], [pivot_text(*one, OfflineModel.fits) for one in further])
    failed: dict[int, RequestError] = {}
    found = model.generation.generate(request for _, request in second.requests)
    for place, outcome in zip(second.places, found, strict=True):
        if isinstance(outcome, RequestError):
            failed[second.pivot_texts[place[0]].sentence] = outcome
        else:
            second.answers[place] = outcome
    done = list(outcomes)
    for n, (i, *_) in enumerate(answered):
        done[i] = failed[n] if n in failed else second.result(n)
    return done


def check_pivot(first: ModelCard, second: ModelCard, option: str) -> None:
    """Raises UsageError unless the second model's source is the first model's target language."""
    for card in (first, second):
        if card.task != "translation":
            raise UsageError(option, f"both models must be for translation, and one is for {card.task}")
    written, read = first.languages.get("target"), second.languages.get("source")
    if not written or not read or tag_distance(written, read) is None:
        raise UsageError(
            option,
            f"the model writes {written or 'an unnamed language'}, and the second one reads {read or 'an unnamed one'}",
            "name a model that reads the language of the first one's outputs",
        )
