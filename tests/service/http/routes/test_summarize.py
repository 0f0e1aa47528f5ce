"""`POST /summarize` over HTTP, beside `/translate` in one service, with real models."""

import asyncio

import httpx
import pytest
from starlette.testclient import TestClient

from interlinear.bundle import load
from interlinear.explanation import Explanation
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import Request
from service.app import create_app
from tests.service.conftest import served

DOG = {"text": "A dog is running in the park."}
TEXTS = [DOG["text"], "A cat is sleeping by the river.", "A child is sitting on the street."]
HEADLINES = ["Dog runs", "Cat sleeps", "Child sits"]
GERMAN = {"q": "Ein Hund läuft im Park.", "source": "de", "target": "en"}


def summarize(client: httpx.Client, **request) -> httpx.Response:
    return client.post("/summarize", json=DOG | request)


def test_a_text_is_summarized(client):
    answer = summarize(client)
    assert answer.status_code == 200
    assert answer.json()["summaries"] == "Dog runs"
    assert set(answer.json()) == {"summaries", "model"}, "nothing that was not asked for"
    assert answer.json()["model"]["name"] == "headlines"


def test_a_list_is_answered_by_a_list(client):
    texts = [TEXTS[0], "", TEXTS[1], "  "]
    answer = summarize(client, text=texts, alternatives=2, explain=True).json()
    assert answer["summaries"] == ["Dog runs", "", "Cat sleeps", "  "]
    assert [len(more) for more in answer["alternatives"]] == [2, 0, 2, 0]
    assert [len(scores) for scores in answer["scores"]] == [3, 0, 3, 0]
    assert [bool(one["target"]) for one in answer["explanations"]] == [True, False, True, False]
    assert answer["model"]["name"] == "headlines"


def test_json_and_both_forms_are_answered_alike(client):
    expected = summarize(client, text=TEXTS, alternatives=1, explain=True).json()
    fields = {"alternatives": "1", "explain": "true"}
    assert client.post("/summarize", data=fields | {"text": TEXTS}).json() == expected
    parts = [*fields.items(), *(("text", text) for text in TEXTS)]
    assert client.post("/summarize", files=[(name, (None, value)) for name, value in parts]).json() == expected


def test_an_explanation_has_every_matrix_and_the_gate(client):
    answer = summarize(client, explain=True).json()
    (explanation,) = (Explanation.model_validate(one) for one in answer["explanations"])
    for spans, text in ((explanation.source, DOG["text"]), (explanation.target, answer["summaries"])):
        assert [text[span.start : span.end] for span in spans] == [span.text for span in spans]
    (model,) = (one for one in client.get("/models").json() if one["task"] == "summarization")
    assert list(explanation.matrices) == model["accepts"]["explain"]
    assert set(explanation.matrices) == {"attention", "word_attention", "gated", "uam"}
    for rows in explanation.matrices.values():
        assert (len(rows), {len(row) for row in rows}) == (2, {8})
    assert len(explanation.gate) == 2
    assert all(0 < gate < 1 for gate in explanation.gate)
    assert "fertility" not in answer["explanations"][0]


def test_options_reach_the_search(client, bundles):
    generation = SequenceGenerator(load(bundles.headlines))
    options = generation.bundle.card.search.model_copy(update={"n_best": 4})
    (expected,) = generation.generate([Request({"source": DOG["text"]}, options)])
    answer = summarize(client, alternatives=3).json()
    assert [answer["summaries"], *answer["alternatives"]] == [c.text for c in expected.candidates]
    assert answer["scores"] == pytest.approx([c.score for c in expected.candidates], abs=1e-5)
    assert len(summarize(client, max_length=2).json()["summaries"].split()) <= 2
    assert "alternatives" not in summarize(client, beam_size=1, alternatives=0, length_penalty=0.6).json()


@pytest.mark.parametrize("reference", ["headlines", "headlines@{version}"])
def test_a_model_can_be_named(client, reference):
    version = summarize(client).json()["model"]["version"]
    answer = summarize(client, model=reference.format(version=version))
    assert answer.json()["model"] == {"name": "headlines", "version": version}


def test_a_model_that_summarizes_does_not_translate(client, bundles):
    assert {code: targets for code, _, targets in map(dict.values, client.get("/languages").json())} == {
        "de": ["de", "en"],
        "en": ["de", "en"],
    }
    with TestClient(create_app(served({"headlines": bundles.headlines}))) as client:
        assert summarize(client).json()["summaries"] == "Dog runs"
        assert client.get("/languages").json() == []
        assert client.post("/detect", json={"q": "A dog."}).json() == []
        for source in ("en", "auto"):
            answer = client.post("/translate", json={"q": "A dog.", "source": source, "target": "en"})
            assert (answer.status_code, answer.json()["detail"]) == (
                400,
                "no translation model is served; see GET /models",
            )
        settings_ = client.get("/frontend/settings").json()
        assert settings_["charLimit"] == 5000
        assert "language" not in settings_


def test_without_a_summarization_model_the_error_says_so(one_model):
    with TestClient(create_app(one_model)) as client:
        answer = summarize(client)
        assert (answer.status_code, answer.json()["detail"]) == (
            400,
            "no summarization model is served; see GET /models",
        )
        answer = summarize(client, model="mt")
        assert answer.json()["detail"] == "model must be one that is served for summarization, none, not 'mt'"


def test_requests_of_both_routes_equal_offline_search(client):
    async def ask_all() -> list[str]:
        async with httpx.AsyncClient(base_url=client.base_url, timeout=60) as many:
            translations = [many.post("/translate", json=GERMAN) for _ in range(10)]
            summaries = [many.post("/summarize", json={"text": TEXTS[i % 3]}) for i in range(15)]
            answers = await asyncio.gather(*translations, *summaries)
            return [next(iter(answer.json().values())) for answer in answers]

    assert asyncio.run(ask_all()) == ["A dog is running in the park."] * 10 + [HEADLINES[i % 3] for i in range(15)]
    assert 'interlinear_steps_total{engine="cpu",model="headlines"}' in client.get("/metrics").text


def test_a_long_text_is_refused_or_truncated_to_its_leading_sentences(client, bundles):
    long = " ".join(TEXTS * 10)
    for options in ({}, {"long": "refuse"}):
        answer = summarize(client, text=long, **options)
        assert answer.status_code == 400
        assert "the model reads at most 150" in answer.json()["detail"]
    answer = summarize(client, text=long, long="lead", explain=True).json()
    reduced = answer["reduced"]
    assert 0 < reduced["sentences"] < reduced["of"] == 30
    leading = " ".join((TEXTS * 10)[: reduced["sentences"]])
    assert reduced["characters"] == len(leading)
    assert answer["explanations"][0]["source"][-1] == {"text": ".", "start": len(leading) - 1, "end": len(leading)}
    assert answer["summaries"] == summarize(client, text=leading).json()["summaries"]
    tokenizer = load(bundles.headlines).tokenizers["source"]
    longer = " ".join((TEXTS * 10)[: reduced["sentences"] + 1])
    assert len(tokenizer.encode(leading).ids) <= 150 < len(tokenizer.encode(longer).ids), "as many as it reads"


def test_in_a_list_complete_texts_are_not_marked_as_truncated(client):
    answer = summarize(client, text=[TEXTS[0], "", " ".join(TEXTS * 10)], long="lead").json()
    assert answer["summaries"][:2] == ["Dog runs", ""]
    first, second, third = answer["reduced"]
    assert (first, second) == (None, None)
    assert third["of"] == 30
    assert "reduced" not in summarize(client, long="lead").json()
    assert "reduced" not in summarize(client, text=TEXTS, long="lead").json()
    endless = summarize(client, text=["A dog.", "dog " * 400], long="lead")
    assert (endless.status_code, endless.json()["errors"][0]["field"]) == (400, "text[1]")
    assert "must be 'refuse' or 'lead'" in summarize(client, long="cut").json()["detail"]
