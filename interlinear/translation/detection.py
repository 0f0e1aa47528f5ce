"""Language detection among the languages that are served."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from py3langid.langid import MODEL_FILE, LanguageIdentifier

from interlinear.translation.language_tags import closest_language

CERTAIN_ENOUGH = 0.1  # probability of a language among all; "The dog sleeps." has 0.23, "Hund" 0.03


@dataclass(frozen=True)
class LanguageGuess:
    """A language, and the probability (0 to 1) that a text is in it, among all languages that the detector knows.

    `likeliest`: the most probable of all these languages, if it is not this one.
    """

    language: str
    probability: float
    likeliest: "LanguageGuess | None" = None


@cache
def identifier() -> LanguageIdentifier:
    """The model of py3langid, cached because loading unpacks it each time."""
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


class LanguageDetector:
    """Detects which of the served languages a text is in. If it seems to be in another language, or is too short to
    tell, the probabilities are low."""

    def __init__(self, languages: Iterable[str]) -> None:
        self._identifier = identifier()
        self.languages = sorted(set(languages))

    def guesses(self, text: str) -> list[LanguageGuess]:
        """Every served language, most probable first. A language unknown to the detector has probability 0; a variant
        (de-AT) has the probability of its language."""
        probabilities: dict[str, float] = dict(self._identifier.rank(text))
        best = max(probabilities, key=lambda code: probabilities[code])
        guesses = []
        for code in self.languages:
            general = code.partition("-")[0]
            likeliest = None if best in (code, general) else LanguageGuess(best, float(probabilities[best]))
            guesses.append(LanguageGuess(code, probabilities.get(code, probabilities.get(general, 0.0)), likeliest))
        return sorted(guesses, key=lambda guess: -guess.probability)


def guess_of(guesses: Sequence[LanguageGuess], language: str) -> LanguageGuess | None:
    """The guess of a language or, if it is not served, of the closest one."""
    code = closest_language(language, [guess.language for guess in guesses])
    return next((guess for guess in guesses if guess.language == code), None)


def is_certain(guess: LanguageGuess, probability: float = CERTAIN_ENOUGH) -> bool:
    """Whether a text is in the guess's language: no language is more probable, and its probability is at least this."""
    return guess.likeliest is None and guess.probability >= probability
