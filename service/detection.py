"""Which of the languages served a text is in."""

from collections.abc import Iterable
from dataclasses import dataclass

from py3langid.langid import MODEL_FILE, LanguageIdentifier


@dataclass(frozen=True)
class Guess:
    """A language and how likely it is, 0 to 1, among those that were asked about."""

    language: str
    probability: float


class Detector:
    """Tells the languages served apart, and no others: a short text is not mistaken for one that nobody asked about."""

    def __init__(self, languages: Iterable[str]) -> None:
        self._identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
        known = set(self._identifier.labels)
        self.languages = sorted(set(languages))
        self._unknown = [code for code in self.languages if code not in known]
        if known.intersection(self.languages):
            self._identifier.set_languages(known.intersection(self.languages))
        else:
            self._identifier = None

    def guesses(self, text: str) -> list[Guess]:
        """Every language served, the likeliest first; one that the detector does not know has probability 0."""
        if len(self.languages) == 1:
            return [Guess(self.languages[0], 1.0)]
        ranked = self._identifier.rank(text) if self._identifier else []
        return [Guess(code, p) for code, p in ranked] + [Guess(code, 0.0) for code in self._unknown]
