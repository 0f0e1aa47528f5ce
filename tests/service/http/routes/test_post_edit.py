"""`POST /post-edit` over HTTP: the edited text, and the edits of the machine translation."""

import pytest

from interlinear.bundle import load
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import Request
from tests.service.http.test_bad_input import refused

ROUTE = "/post-edit"
WRONG = {
    "source_text": "A dog is running in the park.",
    "translation": "Ein Hund laufen im Park.",
    "source": "en",
    "target": "de",
}
RIGHT = "Ein Hund läuft im Park."


def test_a_translation_is_edited_with_its_source_and_without(client):
    answer = client.post(ROUTE, json=WRONG).json()
    assert answer["editedText"] == RIGHT
    assert answer["operations"] == [
        {"op": "keep", "from": "Ein Hund ", "to": "Ein Hund "},
        {"op": "replace", "from": "laufen", "to": "läuft"},
        {"op": "keep", "from": " im Park.", "to": " im Park."},
    ]
    assert answer["model"]["name"] == "edits"
    assert set(answer) == {"editedText", "operations", "model"}, "nothing that was not asked for"
    alone = {name: text for name, text in WRONG.items() if name != "source_text"}
    assert client.post(ROUTE, json=alone).json()["editedText"] == RIGHT


def test_operations_transform_one_text_into_the_other(client):
    for text in ("Ein Hund laufen", "  Eine  Frau sitzen im\tPark . ", "Park Park Park", "läuft"):
        answer = client.post(ROUTE, json=WRONG | {"translation": text}).json()
        assert "".join(one["from"] for one in answer["operations"]) == text
        assert "".join(one["to"] for one in answer["operations"]) == answer["editedText"]


def test_options_reach_the_search_and_forms_are_answered_alike(client, bundles):
    expected = client.post(ROUTE, json=WRONG | {"alternatives": 2, "explain": True}).json()
    assert client.post(ROUTE, data=WRONG | {"alternatives": "2", "explain": "true"}).json() == expected
    generation = SequenceGenerator(load(bundles.edits))
    options = generation.bundle.card.search.model_copy(update={"n_best": 3})
    texts = {"source": WRONG["source_text"], "mt": WRONG["translation"]}
    (found,) = generation.generate([Request(texts, options)])
    assert [expected["editedText"], *expected["alternatives"]] == [c.text for c in found.candidates]
    assert expected["scores"] == pytest.approx([c.score for c in found.candidates], abs=1e-5)
    (explanation,) = expected["explanations"]
    assert {name: len(one["words"]) for name, one in explanation["sources"].items()} == {"source": 8, "mt": 6}
    assert set(explanation["between"]) == {"source", "mt"}
    assert "alternatives" not in client.post(ROUTE, data=WRONG | {"source_text": ""}).json()


FIELDS = {
    "nothing to edit": ({"translation": None}, "translation", "string"),
    "a blank translation": ({"translation": " "}, "translation", "must not be blank"),
    "a blank source": ({"source_text": " "}, "source_text", "must not be blank"),
    "too long a translation": ({"translation": ". " * 200}, "translation", "cannot be edited: the text has 400 tokens"),
    "too long a source": ({"source_text": ". " * 200}, "source_text", "cannot be edited: the text has 400 tokens"),
    "a list": ({"translation": ["Ein Hund."]}, "translation", "string"),
    "no detection": ({"source": "auto"}, "source", "must be en for de"),
    "another language": ({"target": "fr"}, "target", "must be de for en"),
    "another task's model": ({"model": "en-de"}, "model", "must be one for post-edit, edits@"),
    "another route's field": ({"q": "Ein Hund."}, "q", "the fields are translation, source, target, "),
}


@pytest.mark.parametrize(("changes", "field", "cause"), FIELDS.values(), ids=FIELDS)
def test_an_invalid_field_is_named(client, changes, field, cause):
    problem = refused(client.post(ROUTE, json=WRONG | changes))
    assert [one["field"] for one in problem["errors"]] == [field]
    assert cause in problem["detail"]
