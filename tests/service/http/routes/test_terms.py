"""`POST /translate` with a glossary, and with what must not change."""

import re

import pytest

from interlinear.explanation import Explanation
from tests.service.http.routes.test_translate import DOG, translate
from tests.service.http.test_streaming import EVENTS, read

URL = "https://example.org/a?b=1"


def test_a_glossary_says_how_terms_are_translated(client):
    answer = translate(client, glossary=[{"source": "hund", "target": "greyhound"}]).json()
    assert answer["translatedText"].count("greyhound") == 1
    assert translate(client).json()["translatedText"] == "A dog is running in the park.", "another request"


def test_json_and_forms_are_answered_alike(client):
    glossary = [{"source": "Hund", "target": "greyhound"}, {"source": "läuft", "target": "is walking"}]
    expected = translate(client, glossary=glossary, do_not_translate=["im Park"], explain=True).json()
    assert "im Park" in expected["translatedText"] and "greyhound" in expected["translatedText"]
    lines = "Hund\tgreyhound\nläuft\tis walking\n"
    form = DOG | {"glossary": lines, "do_not_translate": "im Park", "explain": "true"}
    assert client.post("/translate", data=form).json() == expected
    assert client.post("/translate", data=form | {"do_not_translate": ["im Park", "xyz"]}).json() == expected


@pytest.mark.parametrize("empty", ["glossary", "glossary_id", "do_not_translate", "protect", "target_prefix"])
def test_an_empty_field_of_a_form_counts_as_absent(client, empty):
    plain = client.post("/translate", data=DOG).json()
    assert client.post("/translate", data=DOG | {empty: ""}).json() == plain
    kept = client.post("/translate", data=DOG | {"do_not_translate": ["", "im Park"]}).json()
    assert kept == translate(client, do_not_translate="im Park").json()


def test_terms_are_found_in_every_sentence_and_text(client):
    texts = [f"Ein Hund läuft. Siehe {URL} an. Ein Hund sitzt.", f"{URL}", "Eine Katze sitzt."]
    answer = translate(client, q=texts, glossary=[{"source": "Hund", "target": "hound"}], explain=True).json()
    first, second, _ = answer["translatedText"]
    assert first.count("hound") == 2 and first.count(URL) == 1 and second == URL
    for text, translation, explained in zip(texts, answer["translatedText"], answer["explanations"], strict=True):
        explanation = Explanation.model_validate(explained)
        for term in explanation.terms or []:
            source, target = text[slice(*term.source)], translation[slice(*term.target)]
            assert (source, target) in [("Hund", "hound"), (URL, URL)]
        assert all(len(rows) == len(explanation.target) for rows in explanation.matrices.values())
    assert [len(one.get("terms", [])) for one in answer["explanations"]] == [3, 1, 0]


def test_a_term_is_not_divided_between_sentences(client):
    text = "Ein Hund heißt Dr. No. Er läuft."
    answer = translate(client, q=text, do_not_translate=["Dr. No. Er"]).json()
    assert answer["translatedText"].count("Dr. No. Er") == 1


def test_what_is_protected_can_be_left_to_the_model(client):
    assert translate(client, q="5 km").json()["translatedText"] == "5 km"
    assert translate(client, q="5 km", protect=False).json()["translatedText"] != "5 km"


def test_a_stream_begins_as_its_answer_and_ends_with_it(client):
    request = DOG | {"glossary": [{"source": "Park", "target": "Jurassic Park"}]}
    *prefixes, (_, answer) = read(client.post("/translate", json=request, headers=EVENTS).text)
    assert answer["translatedText"].count("Jurassic Park") == 1
    assert prefixes and all(answer["translatedText"].startswith(prefix["text"]) for _, prefix in prefixes)


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"glossary": [{"source": "Hund", "target": "dog"}, {"source": "HUND", "target": "hound"}]}, "glossary"),
        ({"glossary": [{"source": "Hund", "target": " "}]}, "glossary"),
        ({"glossary": [{"source": "Hund"}]}, "glossary[0].target"),
        ({"glossary": [{"source": "a", "target": "b"}] * 1001}, "glossary"),
        ({"glossary": [{"source": "a" * 201, "target": "b"}]}, "glossary[0].source"),
        ({"do_not_translate": [" "]}, "do_not_translate"),
        ({"do_not_translate": ["Hund", ""]}, "do_not_translate[1]"),
        ({"do_not_translate": ["Hund"], "glossary": [{"source": "Hund", "target": "dog"}]}, "glossary"),
        ({"glossary": [{"source": "Hund", "target": "a b c d e f g"}], "max_length": 2}, "glossary"),
        ({"glossary": "Hund"}, "glossary"),
    ],
)
def test_wrong_terms_are_named(client, fields, named):
    answer = translate(client, **fields)
    assert answer.status_code == 400, answer.text
    assert named in [error["field"] for error in answer.json()["errors"]], answer.text


def test_terms_in_markup(client):
    """They are found in the texts of a document, and the tags stay around their words."""
    page = f"<p>Ein <b>Hund</b> läuft. Siehe <a href='#'>{URL}</a> an.</p><p>{URL}</p>"
    glossary = [{"source": "Hund", "target": "greyhound"}]
    answer = translate(client, q=page, format="html", glossary=glossary).json()["translatedText"]
    assert "<b>greyhound</b>" in answer and answer.endswith(f"<p>{URL}</p>")
    (linked,) = re.findall("<a href='#'>([^<]*)</a>", answer)
    assert linked.count(URL) == 1, "beside it whatever the small model makes of `siehe` and `an`"
