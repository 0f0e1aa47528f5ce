"""Texts of several sentences: white space, alternatives, explanations, limits."""

import asyncio
import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from interlinear.explanation import Explanation
from interlinear.text.sentences import estimated_sentences, min_sentences, split_sentences_by_line
from interlinear.translation.merging import best_combinations
from service.app import create_app
from service.engine.preparation import PreparationPool
from service.problems import Problem
from tests.service.conftest import busy, until

CALLER = "none"  # of a test's client, which has no address
ASK = {"source": "de", "target": "en"}
DOG, CAT = ("Ein Hund läuft im Park.", "A dog is running in the park."), ("Eine Katze schläft.", "A cat is sleeping.")


def translate(client, q, **more) -> dict:
    answer = client.post("/translate", json=ASK | {"q": q} | more)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("between", [" ", "  ", "\n", "\n\n", "\r\n\r\n\t", " \n ", "\u2028"], ids=repr)
def test_white_space_and_paragraphs_are_preserved(client, between):
    german = f"  {DOG[0]}{between}{CAT[0]}\n"
    assert translate(client, german)["translatedText"] == f"  {DOG[1]}{between}{CAT[1]}\n"
    listed = translate(client, [german, DOG[0], " "])["translatedText"]
    assert listed == [f"  {DOG[1]}{between}{CAT[1]}\n", DOG[1], " "]


def test_a_text_may_be_longer_than_the_models_limit(client):
    assert translate(client, " ".join([DOG[0]] * 100))["translatedText"] == " ".join([DOG[1]] * 100)
    long = client.post("/translate", json=ASK | {"q": ["Gut.", f"{DOG[0]} {'Hund ' * 200}"]})
    assert long.status_code == 200
    assert [warning["field"] for warning in long.json()["warnings"]] == ["q[1]"]


def test_an_explanation_refers_to_the_complete_texts(client):
    german = f" {DOG[0]}\n\n{CAT[0]} "
    answer = translate(client, german, explain=True)
    (one,) = (Explanation.model_validate(given) for given in answer["explanations"])
    for spans, text in ((one.source, german), (one.target, answer["translatedText"])):
        assert [text[span.start : span.end] for span in spans] == [span.text for span in spans]
        assert "".join(span.text for span in spans) == "".join(text.split())
    alone = [Explanation.model_validate(translate(client, q, explain=True)["explanations"][0]) for q, _ in (DOG, CAT)]
    wide, high = len(alone[0].source), len(alone[0].target)
    assert one.sentences == [(len(part.source), len(part.target)) for part in alone] and alone[0].sentences is None
    matrix = one.matrices["attention"]
    for row in range(len(one.target)):
        for column in range(len(one.source)):
            first, second = row < high, column < wide
            if first != second:
                assert matrix[row][column] == 0
            else:
                part = alone[0] if first else alone[1]
                own = part.matrices["attention"][row - (not first) * high][column - (not second) * wide]
                assert matrix[row][column] == pytest.approx(own, abs=2e-4)
    assert one.alignment == alone[0].alignment + [(i + wide, j + high) for i, j in alone[1].alignment]


def test_alternatives_are_the_best_combinations(client):
    parts = [translate(client, q, alternatives=3) for q, _ in (DOG, CAT)]
    options = [list(zip(p["scores"], [p["translatedText"], *p["alternatives"]], strict=True)) for p in parts]
    every = [((a + b) / 2, f"{one} {other}") for (a, one), (b, other) in itertools.product(*options)]
    best = sorted(every, key=lambda pair: -pair[0])[:4]
    answer = translate(client, f"{DOG[0]} {CAT[0]}", alternatives=3)
    assert [answer["translatedText"], *answer["alternatives"]] == [text for _, text in best]
    assert answer["scores"] == pytest.approx([score for score, _ in best], abs=1e-5)


@given(
    st.lists(
        st.lists(st.integers(-20, 0), min_size=1, max_size=4).map(lambda own: sorted(own, reverse=True)), max_size=5
    ),
    st.integers(1, 12),
)
def test_combinations_equal_those_of_exhaustive_search(scores, wanted):
    sums = sorted((sum(choice) for choice in itertools.product(*scores)), reverse=True)
    found = [sum(own[choice.get(i, 0)] for i, own in enumerate(scores)) for choice in best_combinations(scores, wanted)]
    assert found == sums[:wanted]


def test_a_headline_is_of_the_complete_text(client):
    text = "A dog is running in the park. A cat is sleeping by the river."
    answer = client.post("/summarize", json={"text": text, "explain": True}).json()
    assert len(answer["explanations"][0]["source"]) == 16
    assert answer["summaries"].count(".") == 0


def test_the_number_of_sentences_in_a_request_is_bounded(one_model):
    with TestClient(create_app(one_model.model_copy(update={"sentences": 5, "explained": 2}))) as client:
        assert client.post("/translate", json=ASK | {"q": "Gut. " * 5}).status_code == 200
        many = client.post("/translate", json=ASK | {"q": ["Gut. Gut. Gut."] * 2})
        assert (many.status_code, "more than 5 sentences" in many.json()["detail"]) == (400, True)
        unread = {"q": ["<p>Gut</p>" * 6, "<p>which is not well-formed"], "format": "xml"}
        for q in (unread, unread | {"split_sentences": "0"}, {"q": ["<p>Gut"] * 6, "format": "html"}):
            refused = client.post("/translate", json=ASK | q)
            assert (refused.status_code, "more than 5 sentences" in refused.json()["detail"]) == (400, True)
        assert client.post("/translate", json=ASK | {"q": "Gut. Gut.", "explain": True}).status_code == 200
        refused = client.post("/translate", json=ASK | {"q": "Gut. Gut. Gut.", "explain": True})
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "explain")


@given(st.text(alphabet="ab. \t\n\r\v\f\x1c\x85\u2028?!。\ud800", max_size=60))
def test_every_non_blank_line_is_at_least_one_sentence(text):
    assert min_sentences(text, 1000) <= len(split_sentences_by_line(text, "en"))
    assert min_sentences(text, 2) == min(2, min_sentences(text, 1000))


@pytest.mark.parametrize(
    ("text", "sentences"),
    [("Gut. Gut! (Ja.) Gut?\nGut", 5), ("你好。再见！好", 3), ("3.5 km. ", 1), ("\n", 0), ("." * 200_000, 1)],
)
def test_the_number_of_sentences_is_estimated_without_splitting(text, sentences):
    assert estimated_sentences(text) == sentences


@pytest.mark.parametrize("limit", [{"queue_texts": 150}, {"queue_tokens": 2000}])
def test_what_the_queue_does_not_take_is_refused_before_it_is_split(one_model, limit):
    """By its sentences, not its lines, and by their tokens x the model's beam: all preparation threads are busy."""
    app = create_app(one_model.model_copy(update=limit))
    engine, q = app.state.service.engine, ["Ein Hund läuft im Park. " * 10] * 20
    with TestClient(app) as client, busy(engine.preparation), engine.admit(CALLER, ["a" * 100]):
        for markup in ({}, {"format": "html"}):
            body = ASK | markup | {"q": [f"{i} {text}" for i, text in enumerate(q)]}
            refused = client.post("/translate", json=body, headers={"X-Request-Timeout": "5"})
            assert (refused.status_code, "texts wait already" in refused.json()["detail"]) == (429, True), refused.text


def test_lines_are_counted_before_detection_and_splitting(one_model):
    """A request over the limit is refused while all preparation threads are busy."""
    app = create_app(one_model)
    with TestClient(app) as client, busy(app.state.service.engine.preparation):
        for source in ("de", "auto"):
            refused = client.post("/translate", json=ASK | {"q": ["a\n" * 2400] * 100, "source": source})
            assert (refused.status_code, "more than 1000 sentences" in refused.json()["detail"]) == (400, True)


def test_a_glossary_counts_once_in_a_request(one_model):
    """Of many short texts, those that wait for a thread wait together, however long the glossary is."""
    app = create_app(one_model)
    with TestClient(app) as client, ThreadPoolExecutor(1) as caller:
        preparation = app.state.service.engine.preparation
        glossary = [{"source": f"Wort {i}", "target": f"word {i}"} for i in range(500)]
        texts = [f"Ein Hund läuft {i}." for i in range(100)]
        with busy(preparation):
            asking = caller.submit(client.post, "/translate", json=ASK | {"q": texts, "glossary": glossary})
            until(lambda: preparation.waiting == 4)  # a part with the glossary, and one without
        assert asking.result().status_code == 200


def test_texts_are_prepared_in_turns_and_unprepared_ones_are_503_at_shutdown():
    """One caller has a hundred queued parts, another one part, which is next; then the service is stopped.

    With one thread, as the order in which several threads come to their work says nothing of the queue.
    """
    preparation = PreparationPool(threads=1)
    goes_on, begun, order = threading.Event(), threading.Event(), []

    def work(name: str) -> str:
        begun.set()
        goes_on.wait()
        order.append(name)
        if name == "one":
            preparation.stop(Problem.unavailable("it ends"))
        return name

    async def ask() -> None:
        many = asyncio.create_task(preparation.map("many", work, ["many"] * 100, lambda _: 10**4))
        await asyncio.to_thread(begun.wait)
        one = asyncio.create_task(preparation.map("one", work, ["one"], lambda _: 10**4))
        await asyncio.sleep(0)
        goes_on.set()
        for asked in (many, one):
            with pytest.raises(Problem, match="it ends") as problem:
                await asked
            assert problem.value.status == 503
        with pytest.raises(Problem, match="it ends"):
            await preparation.map("late", work, ["late"], lambda _: 10**4)

    asyncio.run(ask())
    assert order == ["many", "one"]
