"""Confidences, and explanations with the links of a reverse model, over HTTP."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import interlinear
from interlinear.alignment.links import symmetrize
from interlinear.bundle import write_bundle
from interlinear.errors import InterlinearError
from interlinear.explanation import Explanation
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import Request
from service.app import create_app
from service.settings import ServedModelConfig, Settings

DOG = {"q": "Ein Hund läuft im Park.", "source": "de", "target": "en"}
TEXTS = [DOG["q"], "Im Garten schläft eine Katze.", "Eine Frau sitzt."]


def served(bundles, reverse: Path | None, **changes: object) -> Settings:
    model = ServedModelConfig(name="de-en", uri=str(bundles.de_en), reverse=str(reverse) if reverse else None)
    return Settings(**({"models": (model,), "threads": 1} | changes))


@pytest.fixture(scope="module")
def both(bundles) -> Iterator[TestClient]:
    with TestClient(create_app(served(bundles, bundles.en_de))) as client:
        yield client


@pytest.fixture(scope="module")
def generators(bundles) -> tuple[SequenceGenerator, SequenceGenerator]:
    return SequenceGenerator(interlinear.load(bundles.de_en)), SequenceGenerator(interlinear.load(bundles.en_de))


def ask(client: TestClient, **request: object) -> dict:
    answer = client.post("/translate", json=DOG | {"explain": True} | request)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_word_has_the_confidence_of_offline_search(client, generators):
    options = generators[0].bundle.card.search
    results = list(generators[0].generate([Request({"source": text}, options, explain=True) for text in TEXTS]))
    found = ask(client, q=TEXTS)["explanations"]
    for explanation, expected in zip(found, results, strict=True):
        assert explanation["confidence"] == pytest.approx(expected.explanation.confidence, abs=1e-3)
        assert len(explanation["confidence"]) == len(explanation["target"])
        assert all(0 < c <= 1 for c in explanation["confidence"])
        assert not {"links", "symmetrized"} & set(explanation), "without a reverse model there are none"
        assert explanation["aligned_by"] == "posterior"
        assert explanation["matrices"] == expected.explanation.matrices


def doubts(explanation: dict) -> list[tuple[str, str]]:
    """The reason and the word of every doubt."""
    return [(doubt["reason"], explanation[doubt["side"]][doubt["word"]]["text"]) for doubt in explanation["doubts"]]


def target_doubts(explanation: dict) -> list[tuple[str, str]]:
    """Those about target words. Which source words a small model attends to is not for a test to say."""
    return [doubt for doubt in doubts(explanation) if doubt[0] not in ("untranslated", "unseen")]


LEFT_OUT = {("untranslated", word) for word in ("Katze", "schläft", "Garten")}


def test_a_sure_translation_has_no_doubts_and_a_cut_one_names_what_it_left_out(client):
    text = "Eine Katze schläft im Garten."
    (whole,) = ask(client, q=text)["explanations"]
    assert target_doubts(whole) == []
    (cut,) = ask(client, q=text, max_length=1)["explanations"]
    assert [span["text"] for span in cut["target"]] == ["A"]
    assert LEFT_OUT & set(doubts(cut)), "the weights of one word cannot cover three"
    assert all("earlier" not in doubt for doubt in cut["doubts"])


def test_doubts_of_several_sentences_count_the_words_of_the_whole_text(client):
    texts = ["Eine Katze schläft im Garten.", "Im Garten schläft eine Katze."]
    separate = [ask(client, q=text, max_length=1)["explanations"][0] for text in texts]
    (whole,) = ask(client, q=" ".join(texts), max_length=1)["explanations"]
    assert doubts(whole) == [doubt for one in separate for doubt in doubts(one)]
    assert max(doubt["word"] for doubt in whole["doubts"]) > len(separate[0]["source"])


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ("A dog is sleeping in the garden.", {("low_probability", "dog")}),
        ("A cat is sleeping in the garden garden.", {("low_probability", "garden")}),
        ("A", LEFT_OUT),
    ],
    ids=["replaced", "repeated", "dropped"],
)
def test_an_error_in_a_given_translation_is_doubtful(generators, wrong, expected):
    right = "A cat is sleeping in the garden."
    pairs = [({"source": "Eine Katze schläft im Garten."}, text) for text in (right, wrong)]
    sure, doubtful = generators[0].align(pairs, confidence=True)
    assert target_doubts(sure.model_dump()) == []
    assert expected & set(doubts(doubtful.model_dump()))


def test_links_are_those_of_both_directions(both, client, generators):
    for text in TEXTS:
        answer, alone = ask(both, q=text), ask(client, q=text)
        (found,), (forward,) = answer["explanations"], alone["explanations"]
        (backward,) = generators[1].align([({"source": answer["translatedText"]}, text)])
        expected = symmetrize(
            [tuple(link) for link in forward["alignment"]],
            [(i, j) for j, i in backward.alignment],
            "grow-diag-final-and",
        )
        assert found["symmetrized"] is True and [tuple(link) for link in found["alignment"]] == expected
        assert [(link["source"], link["target"]) for link in found["links"]] == expected
        for link in found["links"]:
            i, j = link["source"], link["target"]
            there, back = forward["matrices"]["posterior"][j][i], backward.matrices["posterior"][i][j]
            assert link["weight"] == pytest.approx(there, abs=1e-3)
            assert link["reverse_weight"] == pytest.approx(back, abs=1e-3)
            assert link["symmetrized_weight"] == pytest.approx((there + back) / 2, abs=1e-3)


def test_a_text_of_several_sentences_has_the_links_of_each(both):
    separate = [ask(both, q=text)["explanations"][0] for text in TEXTS]
    (whole,) = ask(both, q=" ".join(TEXTS))["explanations"]
    explanation = Explanation.model_validate(whole)
    assert explanation.symmetrized and explanation.confidence == pytest.approx(
        [c for one in separate for c in one["confidence"]], abs=1e-3
    )
    expected = []
    left = above = 0
    for one in separate:
        expected += [(link["source"] + left, link["target"] + above) for link in one["links"]]
        left, above = left + len(one["source"]), above + len(one["target"])
    assert explanation.alignment == expected == [(link.source, link.target) for link in explanation.links]


def test_the_reverse_model_is_described_and_its_explanations_counted(both, client):
    (described,) = both.get("/models").json()
    assert described["reverse"]["name"] == "en-de" and described["reverse"]["version"].startswith("sha-")
    assert described["accepts"]["aligned_by"] == "posterior"
    assert all("reverse" not in model for model in client.get("/models").json())

    def count() -> float:
        lines = both.get("/metrics").text.splitlines()
        name = 'interlinear_reverse_explanations_total{directions="both",model="de-en"}'
        return next((float(line.split()[-1]) for line in lines if line.startswith(name)), 0.0)

    before = count()
    ask(both, q=TEXTS)
    ask(both, explain=False)
    assert count() == before + len(TEXTS)


def test_without_explain_nothing_is_explained(both):
    assert set(ask(both, explain=False)) == {"translatedText", "model"}


def test_a_pair_too_long_for_the_reverse_model_says_so(bundles, tmp_path):
    back = interlinear.load(bundles.en_de)
    limits = back.card.limits.model_copy(update={"source_length": 6})
    write_bundle(tmp_path / "short", back.model, back.tokenizers, back.card.model_copy(update={"limits": limits}))
    with TestClient(create_app(served(bundles, tmp_path / "short"))) as client:
        (long,), (short,) = (ask(client, q=text)["explanations"] for text in ("Im Garten schläft eine Katze.", "Hund"))
        assert long["symmetrized"] is False and "links" not in long
        assert short["symmetrized"] is True
        (whole,) = ask(client, q="Hund\nIm Garten schläft eine Katze.")["explanations"]
        assert whole["symmetrized"] is False and "links" not in whole, "not all of its sentences are"


def test_every_worker_process_has_the_reverse_model(bundles, both):
    with TestClient(create_app(served(bundles, bundles.en_de, device="cpu,cpu", load_seconds=300))) as client:
        assert ask(client, q=TEXTS)["explanations"] == ask(both, q=TEXTS)["explanations"]


def test_in_int8_explanations_are_of_the_int8_models(bundles, both):
    with TestClient(create_app(served(bundles, bundles.en_de, precision="int8"))) as client:
        for found, exact in zip(ask(client, q=TEXTS)["explanations"], ask(both, q=TEXTS)["explanations"], strict=True):
            assert found["symmetrized"] is True
            assert found["confidence"] == pytest.approx(exact["confidence"], abs=0.1)


@pytest.mark.parametrize(
    ("model", "reverse", "says"),
    [
        ("de_en", "de_en", "it goes from de to en, and MODEL from de to en"),
        ("de_en", "headlines", "both models must be for translation, and one is for summarization"),
        ("pictures", "de_en", "both models must be for translation, and one is for multimodal"),
        ("de_en", "nowhere", "there is no such folder"),
    ],
)
def test_a_model_that_is_not_the_reverse_is_refused(bundles, model, reverse, says, tmp_path):
    folder = getattr(bundles, reverse) if reverse != "nowhere" else tmp_path / "nowhere"
    config = ServedModelConfig(name="m", uri=str(getattr(bundles, model)), reverse=str(folder))
    with pytest.raises(InterlinearError, match=says):
        create_app(Settings(models=(config,), threads=1))


def test_a_failed_reverse_model_fails_only_explanations(bundles):
    """An error of the reverse model ends the request with 500 that asked for it, and no other."""
    app = create_app(served(bundles, bundles.en_de))
    with TestClient(app, raise_server_exceptions=False) as client:
        (model,) = app.state.service.models.served
        del model.translator.reverse.bundle.model.decoder
        assert client.post("/translate", json=DOG | {"explain": True}).status_code == 500
        assert ask(client, explain=False)["translatedText"] == "A dog is running in the park."
