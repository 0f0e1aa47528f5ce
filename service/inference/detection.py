"""Which of the languages served a text is in."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from py3langid.langid import MODEL_FILE, LanguageIdentifier


@dataclass(frozen=True)
class LanguageGuess:
    """A language, and how likely a text is in it, 0 to 1, among all languages that the detector knows.

    `likeliest`: the likeliest of all these languages, where it is another.
    """

    language: str
    probability: float
    likeliest: "LanguageGuess | None" = None


@cache
def identifier() -> LanguageIdentifier:
    """py3langid's model, which it unpacks each time; nothing of it changes."""
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


class LanguageDetector:
    """Tells languages apart. A text is said to be in none but those served; where it seems to be in another, or is too
    short to tell, their probabilities are low."""

    def __init__(self, languages: Iterable[str]) -> None:
        self._identifier = identifier()
        self.languages = sorted(set(languages))

    def guesses(self, text: str) -> list[LanguageGuess]:
        """Every language served, the likeliest first; one that the detector does not know has probability 0, and a
        variant (de-AT) that of its language."""
        found: dict[str, float] = dict(self._identifier.rank(text))
        best = max(found, key=lambda code: found[code])
        guesses = []
        for code in self.languages:
            general = code.partition("-")[0]
            likeliest = None if best in (code, general) else LanguageGuess(best, float(found[best]))
            guesses.append(LanguageGuess(code, found.get(code, found.get(general, 0.0)), likeliest))
        return sorted(guesses, key=lambda guess: -guess.probability)
