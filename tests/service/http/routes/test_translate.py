"""`POST /translate` and the routes beside it, over HTTP, of a real service with real models."""

import asyncio

import httpx
import pytest

from interlinear.bundle import load
from interlinear.explanation import Explanation
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import Request
from interlinear.search import SearchOptions
from tests.service.conftest import sentences

DOG = {"q": "Ein Hund läuft im Park.", "source": "de", "target": "en"}


def translate(client: httpx.Client, **request) -> httpx.Response:
    return client.post("/translate", json=DOG | request)


def test_a_text_is_translated(client):
    answer = translate(client)
    assert answer.status_code == 200
    assert answer.json()["translatedText"] == "A dog is running in the park."
    assert set(answer.json()) == {"translatedText", "model"}, "nothing that was not asked for"
    assert answer.json()["model"]["name"] == "de-en"
    assert answer.headers["content-type"] == "application/json"


def test_json_and_both_forms_are_answered_alike(client):
    expected = translate(client, alternatives=1, explain=True).json()
    fields = DOG | {"alternatives": "1", "explain": "true"}
    assert client.post("/translate", data=fields).json() == expected
    assert client.post("/translate", files={n: (None, v) for n, v in fields.items()}).json() == expected
    raw = "&".join(f"{name}={value}" for name, value in fields.items()).encode()  # as `curl -d` sends it: not escaped
    headers = {"Content-Type": "application/x-www-form-urlencoded"}
    assert client.post("/translate", content=raw, headers=headers).json() == expected


def test_a_list_is_answered_by_a_list(client):
    texts = ["Ein Hund läuft im Park.", "", "Im Garten schläft eine Katze.", "  "]
    answer = translate(client, q=texts, source="auto", alternatives=2, explain=True).json()
    assert answer["translatedText"] == ["A dog is running in the park.", "", "A cat is sleeping in the garden.", "  "]
    assert [len(more) for more in answer["alternatives"]] == [2, 0, 2, 0]
    assert [len(scores) for scores in answer["scores"]] == [3, 0, 3, 0]
    assert [one["language"] for one in answer["detectedLanguage"]] == ["de"] * 4
    assert [bool(one["target"]) for one in answer["explanations"]] == [True, False, True, False]
    form = client.post("/translate", data={"q": texts[::2], "source": "de", "target": "en"})
    assert form.json()["translatedText"] == answer["translatedText"][::2]


def test_alternatives_follow_the_search_ranking(client, bundles):
    generation = SequenceGenerator(load(bundles.de_en))
    (expected,) = generation.generate([Request({"source": DOG["q"]}, SearchOptions(n_best=4))])
    answer = translate(client, alternatives=3).json()
    assert [answer["translatedText"], *answer["alternatives"]] == [c.text for c in expected.candidates]
    assert answer["scores"] == pytest.approx([c.score for c in expected.candidates], abs=1e-5)
    assert answer["scores"] == sorted(answer["scores"], reverse=True)


def test_an_explanation_names_the_words_of_both_texts(client):
    answer = translate(client, explain=True).json()
    (explanation,) = (Explanation.model_validate(one) for one in answer["explanations"])
    for spans, text in ((explanation.source, DOG["q"]), (explanation.target, answer["translatedText"])):
        assert [text[span.start : span.end] for span in spans] == [span.text for span in spans]
        assert "".join(span.text for span in spans) == text.replace(" ", "")
    assert len(explanation.matrices["attention"]) == len(explanation.target)
    assert {len(row) for row in explanation.matrices["attention"]} == {len(explanation.source)}


def test_options_reach_the_search(client):
    assert len(translate(client, max_length=2).json()["translatedText"].split()) <= 2
    scores = [translate(client, alternatives=1, length_penalty=p).json()["scores"][0] for p in ("none", "average", 0.6)]
    assert len(set(scores)) == 3
    assert "alternatives" not in translate(client, beam_size=1, alternatives=0).json()


@pytest.mark.parametrize("reference", ["de-en", "de-en@{version}"])
def test_a_model_can_be_named(client, reference):
    version = translate(client).json()["model"]["version"]
    answer = translate(client, model=reference.format(version=version))
    assert answer.json()["model"] == {"name": "de-en", "version": version}


def test_source_auto_detects_among_translatable_languages(client):
    answer = translate(client, source="auto").json()
    assert answer["detectedLanguage"]["language"] == "de"
    assert answer["detectedLanguage"]["confidence"] > 50  # among all languages that the detector knows
    assert answer["translatedText"] == "A dog is running in the park."


def test_a_text_in_the_target_language_is_returned_as_it_is(client):
    english, german = " Where is the old man with the hat? ", "Ein Hund läuft im Park."
    answer = translate(client, q=[english, german], source="auto").json()
    assert answer["translatedText"] == [english, "A dog is running in the park."]
    assert [each["language"] for each in answer["detectedLanguage"]] == ["en", "de"]
    assert [(each["code"], each["field"]) for each in answer["warnings"]] == [("same_language", "q[0]")]
    markup = "<p>Where is the <b>old</b> man &amp; the hat?</p>"
    for source, text, fields in (("en", english, {}), ("en-GB", english, {}), ("auto", markup, {"format": "html"})):
        answer = translate(client, q=text, source=source, **fields).json()
        assert answer["translatedText"] == text and answer["model"]["name"] == "de-en"
        assert answer["warnings"][0]["code"] == "same_language"
    assert translate(client, q="Hund", source="auto").json()["detectedLanguage"]["language"] == "de"


def test_languages_models_and_settings_are_described(client):
    assert client.get("/languages").json() == [
        {"code": "de", "name": "German", "targets": ["de", "en"]},
        {"code": "en", "name": "English", "targets": ["de", "en"]},
    ]
    first, second, third, fourth, fifth = client.get("/models").json()
    assert (first["name"], first["task"], first["languages"]) == (
        "de-en",
        "translation",
        {"source": "de", "target": "en"},
    )
    reads = {"inputs": ["source"], "texts": ["source"], "images": {}}
    accepts = reads | {"max_tokens": 150, "max_length": 400, "beam_size": 5, "explain": ["attention", "posterior"]}
    accepts |= {"aligned_by": "posterior"}
    accepts |= {"length_penalty": "average"}
    assert first["accepts"] == accepts
    assert first["examples"][0] == {"source": "Ein Hund läuft im Park."} and len(first["examples"]) == 3
    assert len(second["examples"]) == 3 and all(" " not in one["source"] for one in second["examples"]), "words"
    assert set(fifth["examples"][0]) == set(fifth["words"]) == {"source", "mt"}
    assert first["scores"] == {"bleu": {"score": 99.0, "signature": "a test's"}}
    assert second["languages"] == {"source": "en", "target": "de"}
    assert (third["name"], third["task"]) == ("headlines", "summarization")
    assert third["accepts"] == accepts | {
        "explain": ["attention", "word_attention", "uam", "gated"],
        "aligned_by": "uam",
    }
    assert (fourth["name"], fourth["task"]) == ("pictures", "multimodal")
    seen = {"grid": [2, 2], "pixels": 32, "media": ["image/jpeg", "image/png", "image/webp"]}
    seen |= {"max_bytes": 10_000_000, "max_pixels": 25_000_000}
    assert fourth["accepts"] == accepts | {
        "inputs": ["source", "image"],
        "images": {"image": seen},
        "between": ["source", "image", "sentinel"],
    }
    assert (fifth["name"], fifth["task"]) == ("edits", "post-edit")
    both = ["source", "mt"]
    assert fifth["accepts"] == accepts | {"inputs": both, "texts": both, "between": both}
    settings = client.get("/frontend/settings").json()
    assert settings["charLimit"] == 5000
    assert settings["keyRequired"] is False
    assert settings["language"]["source"] == {"code": "de", "name": "German"}


def test_detect_ranks_the_served_languages(client):
    for request in ({"json": {"q": "Wo ist der Hund?"}}, {"data": {"q": "Wo ist der Hund?"}}):
        best, other = client.post("/detect", **request).json()
        assert (best["language"], other["language"]) == ("de", "en")
        assert best["confidence"] > 80 > other["confidence"]


def test_answers_carry_a_request_id_and_security_headers(client):
    answer = client.get("/health/ready", headers={"X-Request-ID": "mine-7"})
    assert answer.headers["x-request-id"] == "mine-7"
    assert client.get("/", headers={"X-Request-ID": "<script>"}).headers["x-request-id"] != "<script>"
    policy = client.get("/").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_metrics_are_counted_and_contain_no_text(client):
    translate(client, q="Eine Katze schläft im Garten.")
    client.get("/Katze")
    page = client.get("/metrics").text
    assert 'interlinear_requests_total{method="POST",route="/translate",status="200"}' in page
    assert 'interlinear_requests_total{method="GET",route="none",status="404"}' in page
    assert 'interlinear_steps_total{engine="cpu",model="de-en"}' in page
    assert "process_resident_memory_bytes" in page
    assert "Katze" not in page


def test_concurrent_requests_equal_offline_search(client, bundles):
    texts = [
        "Ein Hund läuft im Park.",
        "Am Fluss schläft eine Katze.",
        "Eine Frau sitzt.",
        "Im Garten spielt ein Kind.",
    ]
    options = SearchOptions()
    offline = list(
        SequenceGenerator(load(bundles.de_en)).generate(Request({"source": text}, options) for text in texts)
    )
    expected = [answer.candidates[0].text for answer in offline]

    async def ask_all() -> list[str]:
        async with httpx.AsyncClient(base_url=client.base_url, timeout=60) as many:
            asked = [many.post("/translate", json=DOG | {"q": texts[i % 4]}) for i in range(60)]
            return [answer.json()["translatedText"] for answer in await asyncio.gather(*asked)]

    assert asyncio.run(ask_all()) == [expected[i % 4] for i in range(60)]


def test_concurrent_texts_are_batched(client):
    texts = list(dict.fromkeys(german for german, _ in sentences()))[:20]
    before = counters(client)
    answer = client.post("/translate", json=DOG | {"q": texts})
    assert answer.status_code == 200 and len(answer.json()["translatedText"]) == 20
    after = counters(client)
    stepped, steps = (after[name] - before.get(name, 0) for name in ("stepped_texts", "steps"))
    assert stepped / steps > 5


def counters(client: httpx.Client) -> dict[str, float]:
    lines = client.get("/metrics").text.splitlines()
    values = (line.partition('_total{engine="cpu",model="de-en"} ') for line in lines)
    return {name.removeprefix("interlinear_"): float(value) for name, _, value in values if value}
