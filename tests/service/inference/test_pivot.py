"""Translation through a pivot language: German to French by a model into English, and one out of it."""

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.testclient import TestClient

from interlinear.explanation import Explanation
from interlinear.generation.request import GenerationResult, Request
from interlinear.search import SearchOptions
from interlinear.translation import pivoting as pivoting_module
from interlinear.translation.pivoting import PIVOT_OUTPUTS
from interlinear.translation.splitting import Search, Step
from service.app import create_app
from service.engine.admission import QueueLoad
from service.inference import searching
from service.problems import Problem
from service.settings import Settings
from tests.service.conftest import DOES, WHERE, WHO, Bundles, capital, sentences, served, texts
from tests.service.http.test_streaming import EVENTS, read

ASK = {"source": "de", "target": "fr"}
WHO_FR = ["un chien", "une femme", "un homme", "un enfant", "un chat"]
DOES_FR = ["court", "dort", "joue", "attend"]
WHERE_FR = ["dans le parc", "au bord du fleuve", "dans le jardin", "dans la rue"]
TEXT, FRENCH = "Ein Hund läuft im Park. Eine Frau schläft.", "Un chien court dans le parc. Une femme dort."


def english_french() -> list[tuple[str, str]]:
    pairs = []
    for (who, who_fr), (does, does_fr), (where, where_fr) in itertools.product(
        zip([en for _, en in WHO], WHO_FR, strict=True),
        zip([en for _, en in DOES], DOES_FR, strict=True),
        zip([en for _, en in WHERE], WHERE_FR, strict=True),
    ):
        pairs.append((capital(f"{who} {does} {where}."), capital(f"{who_fr} {does_fr} {where_fr}.")))
        pairs.append((capital(f"{who} {does}."), capital(f"{who_fr} {does_fr}.")))
    return pairs


def en_fr(bundles: Bundles) -> Path:
    return bundles.made("en-fr", {"source": "en", "target": "fr"}, texts(english_french()), learnt=0.1)


@pytest.fixture(scope="module")
def pivoting(bundles: Bundles) -> Settings:
    return served({"de-en": bundles.de_en, "en-fr": en_fr(bundles)})


@pytest.fixture(scope="module")
def french(pivoting, serving) -> Iterator[httpx.Client]:
    with serving(pivoting) as address, httpx.Client(base_url=address, timeout=30) as client:
        yield client


def translate(client: httpx.Client, q: str | list[str], **more: object) -> dict:
    answer = client.post("/translate", json=ASK | {"q": q} | more)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_text_is_translated_by_two_models_and_the_answer_names_both(french):
    answer = translate(french, TEXT)
    assert answer["translatedText"] == FRENCH
    model = answer["model"]
    assert model["name"] == "de-en+en-fr"
    assert (model["pivot"]["language"], [one["name"] for one in model["pivot"]["models"]]) == ("en", ["de-en", "en-fr"])
    assert model["version"] == "+".join(one["version"] for one in model["pivot"]["models"])


def test_languages_are_reachable_and_detected_through_the_pivot(french):
    targets = {language["code"]: language["targets"] for language in french.get("/languages").json()}
    assert targets == {"de": ["de", "en", "fr"], "en": ["en", "fr"], "fr": ["fr"]}
    answer = translate(french, [TEXT, "A woman is sleeping."], source="auto")
    assert answer["translatedText"] == [FRENCH, "Une femme dort."]
    assert [one["language"] for one in answer["detectedLanguage"]] == ["de", "en"]
    assert [one["name"] for one in answer["model"]] == ["de-en+en-fr", "en-fr"]
    assert translate(french, TEXT, source="de-AT", target="fr_CA")["translatedText"] == FRENCH


def test_the_best_pair_of_outputs_by_their_mean_score(french):
    """Every output of the first model, translated by the second alone."""
    sentence = "Im Park läuft ein Hund."
    first = translate(french, sentence, target="en", alternatives=PIVOT_OUTPUTS - 1)
    pairs = {}
    for score, english in zip(first["scores"], [first["translatedText"], *first["alternatives"]], strict=True):
        second = translate(french, english, source="en", alternatives=2, beam_size=5)
        found = zip(second["scores"], [second["translatedText"], *second["alternatives"]], strict=True)
        for own, text in found:
            pairs[text] = max(pairs.get(text, -np.inf), (score + own) / 2)
    expected = sorted(pairs.items(), key=lambda pair: -pair[1])[:3]
    answer = translate(french, sentence, alternatives=2, beam_size=5)
    assert [answer["translatedText"], *answer["alternatives"]] == [text for text, _ in expected]
    assert answer["scores"] == pytest.approx([score for _, score in expected], abs=1e-4)


def test_the_alignment_is_the_product_of_both(french):
    sentence = "Ein Hund läuft im Park."
    (explained,) = translate(french, sentence, explain=True)["explanations"]
    (first,) = translate(french, sentence, target="en", explain=True)["explanations"]
    english = " ".join(word["text"] for word in first["target"]).replace(" .", ".")
    (second,) = translate(french, english, source="en", explain=True)["explanations"]
    assert [word["text"] for word in second["source"]] == [word["text"] for word in first["target"]]
    for name in ("attention", "posterior"):
        product = np.array(second["matrices"][name]) @ np.array(first["matrices"][name])
        np.testing.assert_allclose(explained["matrices"][name], product / product.sum(1, keepdims=True), atol=2e-3)
    Explanation.model_validate(explained)
    assert all(confidence <= own for confidence, own in zip(explained["confidence"], second["confidence"], strict=True))


def test_an_explanation_covers_all_sentences(french):
    answer = translate(french, f" {TEXT}\n", explain=True)
    one = Explanation.model_validate(answer["explanations"][0])
    for spans, text in ((one.source, f" {TEXT}\n"), (one.target, answer["translatedText"])):
        assert [text[span.start : span.end] for span in spans] == [span.text for span in spans]
        assert "".join(span.text for span in spans) == "".join(text.split())


def test_terms_survive_the_pivot(french):
    sentence = "Ein Hund läuft im Park."
    answer = translate(french, sentence, glossary=[{"source": "Park", "target": "bois-Ω"}], explain=True)
    text, (explained,) = answer["translatedText"], answer["explanations"]
    assert text.count("bois-Ω") == 1 and "Park" not in text
    (term,) = explained["terms"]
    assert sentence[slice(*term["source"])] == "Park" and text[slice(*term["target"])] == "bois-Ω"
    own = [i for i, word in enumerate(explained["source"]) if word["text"] == "Park"]
    inside = [j for j, word in enumerate(explained["target"]) if term["target"][0] <= word["start"] < term["target"][1]]
    assert {i for i, j in explained["alignment"] if j in inside} == set(own)
    for q in ("Ein Hund läuft {name}.", "Ein Hund läuft https://example.org/x."):
        kept = q.split()[-1].rstrip(".")
        assert translate(french, q)["translatedText"].count(kept) == 1
    assert translate(french, "Ein Hund läuft.", do_not_translate="Hund")["translatedText"].count("Hund") == 1


def test_tags_cross_the_pivot(french):
    answer = translate(french, "<p>Ein <b>Hund</b> läuft. <i>Eine Frau schläft.</i></p>", format="html")
    text = answer["translatedText"]
    assert text.startswith("<p>") and text.count("<b>") == text.count("</b>") == 1
    assert "<i>Une femme dort.</i></p>" in text


def test_prefixes_lead_to_the_answer(french):
    request = ASK | {"q": [TEXT, "Ein Kind spielt {x} im Garten."], "explain": True}
    plain = french.post("/translate", json=request).json()
    *prefixes, (last, data) = read(french.post("/translate", json=request, headers=EVENTS).text)
    assert (last, data) == ("answer", plain)
    for index, text in enumerate(plain["translatedText"]):
        own = [prefix["text"] for _, prefix in prefixes if prefix["index"] == index]
        assert own and all(longer.startswith(shorter) for shorter, longer in itertools.pairwise([*own, text]))


def test_a_prefix_is_one_of_the_second_search(french):
    answer = translate(french, "Ein Hund läuft.", target_prefix="Une")
    assert answer["translatedText"].startswith("Une ") and answer["model"]["pivot"]["language"] == "en"


def test_a_pair_that_no_path_connects_is_refused_with_what_there_is(french):
    refused = french.post("/translate", json={"q": "Un chien.", "source": "fr", "target": "de"}).json()
    assert refused["status"] == 400
    assert refused["error"] == "German (de) is not available as a target language from French (fr)"
    other = french.post("/translate", json={"q": TEXT, "source": "de", "target": "es"}).json()
    assert other["detail"] == "target must be en or fr for de, not 'es'"
    named = french.post("/translate", json=ASK | {"q": TEXT, "model": "de-en"}).json()
    assert named["detail"] == "target must be en for de, not 'fr'"


def test_without_the_setting_there_is_no_pivot(pivoting):
    with TestClient(create_app(pivoting.model_copy(update={"pivot": False}))) as client:
        assert client.get("/languages").json()[0]["targets"] == ["de", "en"]
        assert client.post("/translate", json=ASK | {"q": TEXT}).status_code == 400


def test_second_searches_are_reserved_and_released(pivoting):
    app = create_app(pivoting)
    with TestClient(app) as client:
        engine = app.state.service.engine
        translate(client, [TEXT, ""] * 5)
        assert client.post("/translate", json=ASK | {"q": TEXT, "beam_size": 1, "max_length": 9999}).status_code == 400
        assert engine.admission.waiting == QueueLoad()
        with engine.admit("somebody", ["a"]) as reservation:
            engine.reserve_later(reservation, 3, 30)
            assert engine.admission.waiting.texts == 4
        assert engine.admission.waiting == QueueLoad()


def test_the_tokens_of_both_searches_are_charged(pivoting):
    app = create_app(pivoting)
    with TestClient(app):
        service = app.state.service
        path = service.models.translation_path("de", "fr", None)
        charged = []

        async def ask() -> None:
            request = Request({"source": "Ein Hund läuft."}, SearchOptions(beam=3, n_best=3))
            sentence = Search(path.first, request, Step(path.second, SearchOptions(beam=2)))
            with service.engine.admit("somebody", ["Ein Hund läuft."]) as reservation:
                reservation.charge = charged.append
                await searching.search(service.engine, reservation, [sentence])

        asyncio.run(ask())
    first, both = charged
    read = path.first.translator.bundle.tokenizers["source"].encode("Ein Hund läuft.", raw=True).ids
    assert first == 3 * (len(read) + 1)
    assert both - first >= PIVOT_OUTPUTS * 2 * 2  # three texts, of at least a token and the end, with a beam of two


def test_texts_are_split_and_explanations_composed_off_the_event_loop(pivoting, monkeypatch):
    threads: set[threading.Thread] = set()

    def spied(work: Callable[..., Any]) -> Callable[..., Any]:
        def spy(*arguments: Any) -> Any:
            threads.add(threading.current_thread())
            return work(*arguments)

        return spy

    for module, name in ((pivoting_module, "compose_explanations"), (searching, "pivot_text")):
        monkeypatch.setattr(module, name, spied(getattr(module, name)))
    app = create_app(pivoting)
    with TestClient(app):
        service = app.state.service
        path = service.models.translation_path("de", "fr", None)
        texts = [german for german, _ in sentences()]
        options = SearchOptions(beam=1)

        async def ask() -> list[GenerationResult]:
            requests = [Request({"source": text}, options, explain=True) for text in texts]
            with service.engine.admit("somebody", texts) as reservation:
                pairs = [Search(path.first, request, Step(path.second, options)) for request in requests]
                return await searching.search(service.engine, reservation, pairs)

        assert all(result.explanation for result in asyncio.run(ask()))
    assert threads and threading.current_thread() not in threads


def test_second_searches_count_as_part_of_their_request(pivoting):
    """A request alone is always admitted, as without a pivot; not beside others of its caller in a full queue."""
    app = create_app(pivoting.model_copy(update={"queue_texts": 2}))
    with TestClient(app) as client:
        texts = [f"{who} läuft." for who in ("Ein Hund", "Eine Frau", "Ein Mann")]
        assert client.post("/translate", json=ASK | {"q": texts}).status_code == 200
        engine = app.state.service.engine
        with engine.admit("somebody", ["a"]), engine.admit("somebody", ["b"]) as second:
            with pytest.raises(Problem, match="texts wait already"):
                engine.reserve_later(second, 3, 0)
            assert engine.admission.waiting.texts == 2
        assert engine.admission.waiting == QueueLoad()


def test_of_many_sentences_only_the_best_output_is_translated(french):
    many = "\n".join(["Ein Hund läuft im Park."] * 600)
    answer = translate(french, many[:4900], alternatives=1)
    assert set(answer["translatedText"].splitlines()[:-1]) == {"Un chien court dans le parc."}
