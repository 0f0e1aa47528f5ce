"""Sentences over the model's limit, the modes of splitting, the format of edges, and a context."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import torch

from interlinear.bundle import ModelCard, write_bundle
from interlinear.config import RecurrentConfig, TextVocabulary
from interlinear.explanation import Explanation
from interlinear.models.model import build
from interlinear.search import SearchOptions
from interlinear.text import TextConfig, Tokenizer
from tests.service.conftest import SEVERAL, served
from tests.service.http.test_streaming import EVENTS, read

ASK = {"source": "de", "target": "en"}
CLAUSES = ["Ein Hund läuft im Park", "Eine Frau schläft im Garten", "Eine Katze sitzt auf der Straße"]
ENGLISH = ["A dog is running in the park", "A woman is sleeping in the garden", "A cat is sitting on the street"]
LONG, LONG_EN = f"{', '.join(CLAUSES)}.", f"{', '.join(ENGLISH)}."
MOST_TOKENS = 8


@pytest.fixture(scope="module")
def brief(serving, bundles, tmp_path_factory) -> Iterator[httpx.Client]:
    """A service whose model reads few tokens, one clause at a time."""
    folder = tmp_path_factory.mktemp("models") / "brief"
    shutil.copytree(bundles.de_en, folder)
    card = json.loads((folder / "model.json").read_text("utf-8"))
    card["limits"]["source_length"] = MOST_TOKENS
    del card["content_sha256"]  # the card is changed on purpose
    (folder / "model.json").write_text(json.dumps(card), "utf-8")
    with serving(served({"brief": folder})) as address, httpx.Client(base_url=address, timeout=30) as client:
        yield client


def translate(client: httpx.Client, q: str | list[str], **more: object) -> dict:
    answer = client.post("/translate", json=ASK | {"q": q} | more)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_long_sentence_is_translated_in_parts_and_the_answer_says_so(brief):
    answer = translate(brief, ["Ein Hund läuft.", LONG])
    assert answer["translatedText"][1] == LONG_EN
    (warning,) = answer["warnings"]
    assert (warning["code"], warning["field"]) == ("long_sentence", "q[1]")
    assert "warnings" not in translate(brief, "Ein Hund läuft.")


@pytest.mark.parametrize("q", ["Hund" * 300, "Hund " * 300, "狗" * 300, "-a" * 300, "a/b." * 300])
def test_no_single_sentence_is_refused(brief, q):
    assert translate(brief, q)["warnings"]


def test_a_long_text_that_stays_as_it_is_needs_no_parts(brief):
    answer = translate(brief, "{x}" * 300)
    assert (answer["translatedText"], answer.get("warnings")) == ("{x}" * 300, None)


def test_an_explanation_covers_all_parts(brief):
    answer = translate(brief, LONG, explain=True)
    (one,) = (Explanation.model_validate(given) for given in answer["explanations"])
    for spans, text in ((one.source, LONG), (one.target, answer["translatedText"])):
        assert [text[span.start : span.end] for span in spans] == [span.text for span in spans]
        assert "".join(span.text for span in spans) == "".join(text.split())
    assert len(one.sentences) >= len(CLAUSES)
    assert {len(row) for row in one.matrices["attention"]} == {len(one.source)}


@pytest.mark.parametrize("more", [{}, {"preserve_formatting": True}, {"beam_size": 1}])
def test_a_stream_leads_to_the_same_answer(brief, more):
    plain = translate(brief, LONG, **more)
    *prefixes, (last, data) = read(brief.post("/translate", json=ASK | {"q": LONG} | more, headers=EVENTS).text)
    assert (last, data) == ("answer", plain)
    assert prefixes and all(plain["translatedText"].startswith(prefix["text"]) for _, prefix in prefixes)


def test_tags_and_terms_stand_in_their_parts(brief):
    html = f"<p>{LONG.replace('Garten', '<i>Garten</i>')}</p>"
    translated = translate(brief, html, format="html")
    assert translated["warnings"] and translated["translatedText"].count("<i>") == 1
    term = "Park, Eine Frau"  # where the sentence would be divided
    answer = translate(brief, LONG, glossary=[{"source": term, "target": "wood, Mrs"}])
    assert answer["translatedText"].count("wood, Mrs") == 1


def test_a_prefix_is_for_a_sentence_that_is_read_whole(brief):
    refused = brief.post("/translate", json=ASK | {"q": LONG, "target_prefix": "A"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "target_prefix")


def test_the_modes_of_splitting(client):
    one, two = "Ein Hund läuft.", "Eine Katze schläft."
    lines = f"{one[:-1]}\n{two}"  # a line end without a mark
    by_mode = {
        mode: translate(client, lines, split_sentences=mode, explain=True)["explanations"][0].get("sentences")
        for mode in ("0", "1", "nonewlines")
    }
    assert len(by_mode["1"]) == 2
    assert by_mode["0"] is None and by_mode["nonewlines"] is None
    marks = f"{one} {two}"
    assert translate(client, marks, split_sentences="nonewlines") == translate(client, marks)
    together = translate(client, marks, split_sentences="0", explain=True)["explanations"][0]
    assert together.get("sentences") is None
    refused = client.post("/translate", json=ASK | {"q": one, "split_sentences": "2"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "split_sentences")


def test_an_unsplit_text_over_the_limit_is_split_into_sentences(brief):
    q = f"{CLAUSES[0]}. {CLAUSES[1]}."
    assert translate(brief, q, split_sentences="0")["translatedText"] == f"{ENGLISH[0]}. {ENGLISH[1]}."


def test_preserved_formatting(client):
    assert translate(client, "Ein Hund läuft")["translatedText"].endswith(".")
    assert translate(client, "Ein Hund läuft", preserve_formatting=True)["translatedText"][-1].isalpha()
    assert translate(client, "Ein Hund läuft!", preserve_formatting=True)["translatedText"].endswith("g!")
    assert translate(client, "- Ein Hund läuft.", preserve_formatting=True)["translatedText"].startswith("- ")
    explained = translate(client, "Ein Hund läuft", preserve_formatting=True, explain=True)
    assert [word["text"] for word in explained["explanations"][0]["target"]] == explained["translatedText"].split()


def test_a_context_is_refused_by_a_model_without_one(client):
    refused = client.post("/translate", json=ASK | {"q": "Ein Hund läuft.", "context": "Im Park."})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "context")
    assert translate(client, "Ein Hund läuft.", context="")["translatedText"] == "A dog is running."


def test_a_model_with_a_context_reads_it_with_every_sentence(serving, tmp_path: Path):
    """An untrained model of two sources: what it writes depends on the context."""
    torch.manual_seed(1)
    tokenizer = Tokenizer.train(CLAUSES + ENGLISH, TextConfig(units="bpe", vocabulary=330))
    text = TextVocabulary(vocabulary=tokenizer.size)
    sources = {"source": text, "context": text}
    config = RecurrentConfig(embedding=16, hidden=16, sources=sources, target=text, **SEVERAL)
    languages = {"source": "de", "context": "de", "target": "en"}
    card = ModelCard(task="translation", languages=languages, model=config, search=SearchOptions())
    write_bundle(tmp_path / "m", build(config).eval(), dict.fromkeys(("source", "context", "target"), tokenizer), card)
    with serving(served({"m": tmp_path / "m"})) as address, httpx.Client(base_url=address, timeout=30) as client:
        q = f"{CLAUSES[0]}. {CLAUSES[1]}."
        scores = [translate(client, q, alternatives=1, **more)["scores"] for more in ({}, {"context": "Im Garten."})]
        assert scores[0] != scores[1]
        explained = translate(client, q, context="Im Garten.", explain=True)["explanations"][0]
        assert len(explained["sentences"]) == 2
        for weights in explained["between"].values():
            assert len(weights) == len(explained["target"])
        listed = translate(client, [q, " "], context="Im Garten.")["translatedText"]
        assert listed == [translate(client, q, context="Im Garten.")["translatedText"], " "]
        too_long = client.post("/translate", json=ASK | {"q": q, "context": "Garten " * 500})
        assert (too_long.status_code, too_long.json()["errors"][0]["field"]) == (400, "context")
