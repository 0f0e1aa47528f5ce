"""Language detection among the served languages, with the detector's confidence among all languages that it knows."""

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlinear.translation.detection import LanguageDetector
from tests.service.conftest import changed, served

GERMAN = "Zwei junge Männer stehen im Garten neben vielen Büschen."
OTHERS = {
    "fr": "Deux jeunes hommes blancs sont dehors près de nombreux buissons.",
    "ru": "Двое молодых мужчин стоят на улице возле кустов.",
    "ja": "二人の若い男性が茂みの近くの屋外にいます。",
    "no language": "12345 - 67890",
    "signs": "😀 😀 😀",
}


@pytest.mark.parametrize("languages", [["de"], ["de", "en"], ["de", "en", "fi"]])
def test_the_confidence_does_not_depend_on_the_number_of_served_languages(languages: list[str]) -> None:
    best, *rest = LanguageDetector(languages).guesses(GERMAN)
    assert (best.language, {guess.language for guess in rest}) == ("de", set(languages) - {"de"})
    assert best.probability == LanguageDetector(["de", "ru", "ja"]).guesses(GERMAN)[0].probability > 0.9
    assert sum(guess.probability for guess in rest) < 0.1


@pytest.mark.parametrize("served", [["de"], ["de", "en"]])
@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS.keys())
def test_a_text_in_no_served_language_has_low_confidence(text: str, served: list[str]) -> None:
    guesses = LanguageDetector(served).guesses(text)
    assert {guess.language for guess in guesses} == set(served)
    assert all(guess.probability < 0.1 for guess in guesses)


def test_a_language_unknown_to_the_detector_has_no_confidence_and_a_variant_that_of_its_language() -> None:
    guesses = LanguageDetector(["de-AT", "x-klingon", "en"]).guesses(GERMAN)
    assert [guess.language for guess in guesses] == ["de-AT", "en", "x-klingon"]
    assert guesses[0].probability > 0.9 and guesses[2].probability == 0
    assert LanguageDetector([]).guesses(GERMAN) == []


@given(st.text(), st.sets(st.sampled_from(["de", "en", "zh", "pt-BR", "qq"])))
def test_every_served_language_is_listed_by_descending_confidence(text: str, served: set[str]) -> None:
    guesses = LanguageDetector(served).guesses(text)
    assert sorted(guess.language for guess in guesses) == sorted(served)
    numbers = [guess.probability for guess in guesses]
    assert numbers == sorted(numbers, reverse=True)
    assert all(0 <= number <= 1 for number in numbers)


def test_a_service_with_one_language_is_not_certain_and_may_refuse_others(bundles, serving, tmp_path):
    shorter = changed(bundles.headlines, tmp_path / "shorter", task="translation")  # from English to shorter English
    english = "A man is sitting in the park beside the old station."
    with serving(served({"shorter": shorter}, refuse_other_languages=True)) as address:
        found = [httpx.post(f"{address}/detect", json={"q": text}).json() for text in (OTHERS["fr"], english)]
        texts = (OTHERS["fr"], english, "12345 - 67890")
        sent = [{"q": text, "source": "auto", "target": "en"} for text in texts]
        refused, read, no_language = [httpx.post(f"{address}/translate", json=one) for one in sent]
    assert [[one["language"] for one in guesses] for guesses in found] == [["en"], ["en"]]
    assert found[0][0]["confidence"] < 10 and found[1][0]["confidence"] > 90
    assert refused.status_code == 400 and "seems to be French" in refused.text
    assert read.json()["detectedLanguage"] == found[1][0]
    assert no_language.json()["translatedText"] == texts[2]


def test_a_text_in_no_served_language_is_translated_with_low_confidence(client):
    answer = client.post("/translate", json={"q": OTHERS["fr"], "source": "auto", "target": "en"})
    assert answer.status_code == 200
    assert answer.json()["detectedLanguage"]["language"] == "de"
    assert answer.json()["detectedLanguage"]["confidence"] < 10
    several = client.post("/translate", json={"q": [GERMAN, OTHERS["ja"]], "source": "auto", "target": "en"}).json()
    assert [found["confidence"] > 50 for found in several["detectedLanguage"]] == [True, False]
    likeliest = answer.json()["detectedLanguage"]["likeliest"]
    assert (likeliest["language"], likeliest["name"]) == ("fr", "French") and likeliest["confidence"] > 50
    assert "likeliest" not in several["detectedLanguage"][0], "where it is the language itself"
    found = client.post("/detect", json={"q": GERMAN}).json()
    assert [one["language"] for one in found if "likeliest" in one] == ["en"]
