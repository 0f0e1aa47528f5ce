"""Terms of the texts of a request."""

from functools import lru_cache

from interlinear.errors import RequestError
from interlinear.generation.terms import Term, TermFinder, TermOptions
from service.models import ServedModel
from service.problems import Problem


class RequestTerms:
    """Finds the terms of a request's texts, with one index for each of their languages. May be used by several
    threads."""

    def __init__(self, options: TermOptions | None) -> None:
        """None: the texts have no terms."""
        self.options = options
        self.characters = options.characters if options else 0  # the length of the texts in an index
        self._finders: dict[str, TermFinder] = {}

    def find(self, model: ServedModel, text: str) -> tuple[Term, ...]:
        """The terms of a text that a model reads. Raises Problem for contradictory options.

        A model that takes no terms translates text that is protected by its form.
        """
        options = self.options
        if options is None or not are_found(options, model):
            return ()
        language, _ = model.language_pair
        try:
            finder = self._finders.get(language) or cached_finder(options, language)
        except RequestError as error:
            raise Problem.in_field(error.where, f"cannot be used: {error.problem}; {error.remedy}") from None
        self._finders[language] = finder
        return finder.find(text)


def are_found(options: TermOptions, model: ServedModel) -> bool:
    """Whether texts that this model reads have terms by these options."""
    return options.given or (options.protect and model.facts.takes_terms)


@lru_cache(maxsize=8)
def cached_finder(options: TermOptions, language: str) -> TermFinder:
    """A finder with its index. The index of a glossary with 10,000 entries takes 80 ms to build, and serves many
    requests."""
    return TermFinder(options, language)
