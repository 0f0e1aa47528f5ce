"""`POST /translate` with a target prefix: the rest of a translation is written anew, with other next words."""

import pytest

from interlinear.explanation import Explanation
from tests.service.http.routes.test_translate import DOG, translate
from tests.service.http.test_streaming import EVENTS, read


@pytest.mark.parametrize("prefix", ["", "A", "A dog ", "A big", "The hound, which", "A dog is running in the park."])
def test_a_translation_begins_with_its_prefix(client, prefix):
    answer = translate(client, target_prefix=prefix, explain=True).json()
    assert answer["translatedText"].startswith(prefix)
    (explained,) = answer["explanations"]
    explanation = Explanation.model_validate(explained)
    text = answer["translatedText"]
    assert all(text[span.start : span.end] == span.text for span in explanation.target)
    assert len(explanation.confidence or []) == len(explanation.target)


def test_the_rest_is_what_the_model_makes_of_the_source_then(client):
    assert translate(client, target_prefix="In the park").json()["translatedText"].startswith("In the park")
    assert translate(client, target_prefix="A dog").json()["translatedText"] == "A dog is running in the park."
    assert translate(client, target_prefix="A woman").json()["translatedText"] == "A woman is running in the park."


def test_a_beginning_of_the_translation_as_its_prefix_changes_nothing(client):
    for text in ("Ein Hund läuft im Park.", "Auf der Straße spielt ein Kind."):
        translation = translate(client, q=text, beam_size=1).json()["translatedText"]
        words = translation.split(" ")
        for count in range(len(words) + 1):
            for prefix in (" ".join(words[:count]), " ".join([*words[:count], ""])[: len(translation)]):
                again = translate(client, q=text, beam_size=1, target_prefix=prefix).json()
                assert again["translatedText"] == translation, prefix


def test_alternatives_differ_in_the_next_word(client):
    answer = translate(client, target_prefix="A", alternatives=4).json()
    texts = [answer["translatedText"], *answer["alternatives"]]
    assert texts[0] == "A dog is running in the park." and all(text.startswith("A ") for text in texts)
    assert len({text.split()[1] for text in texts}) == len(texts) == 5
    assert answer["scores"] == sorted(answer["scores"], reverse=True)
    first_words = translate(client, target_prefix="", alternatives=2).json()
    assert len({text.split()[0] for text in [first_words["translatedText"], *first_words["alternatives"]]}) == 3


def test_alternatives_that_begin_improbably_are_left_out_on_request(client):
    request = {"q": "Im Garten schläft.", "target_prefix": "A", "alternatives": 4}
    offered = translate(client, **request).json()["alternatives"]

    def probability(text: str) -> float:
        (explained,) = translate(client, q=request["q"], target_prefix=" ".join(text.split()[:2]), explain=True).json()[
            "explanations"
        ]
        return explained["confidence"][1]

    likely = [text for text in offered if probability(text) >= 0.01]
    assert 0 < len(likely) < len(offered) == 4
    assert translate(client, **request, min_alternative_expansion_prob=0.01).json()["alternatives"] == likely
    assert "is for requests with `target_prefix`" in translate(client, min_alternative_expansion_prob=0.01).text


def test_forms_terms_and_streams_have_prefixes(client):
    request = DOG | {"target_prefix": "A big", "do_not_translate": "Park", "alternatives": 1}
    expected = client.post("/translate", json=request).json()
    assert expected["translatedText"].count("Park") == 1
    assert client.post("/translate", data=request).json() == expected
    *prefixes, (_, answer) = read(client.post("/translate", json=request, headers=EVENTS).text)
    assert answer == expected
    assert prefixes and all(answer["translatedText"].startswith(prefix["text"]) for _, prefix in prefixes)


def test_white_space_around_the_text_is_that_of_the_prefix_and_of_the_end(client):
    assert (
        translate(client, q="  Ein Hund läuft.\n", target_prefix=" A").json()["translatedText"]
        == " A dog is running.\n"
    )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"q": ["Ein Hund läuft."]}, "is for one text without markup"),
        ({"format": "html"}, "is for one text without markup"),
        ({"q": "Ein Hund läuft. Eine Frau sitzt."}, "is for one sentence, and this text has 2"),
        ({"target_prefix": "A dog " * 400}, r"cannot be translated: the prefix has"),
        ({"max_length": 2}, "allow a longer output"),
        ({"target_prefix": ["A"]}, "target_prefix"),
    ],
)
def test_a_prefix_that_cannot_be_is_named(client, fields, said):
    answer = translate(client, **({"target_prefix": "A dog runs"} | fields))
    assert answer.status_code == 400
    assert said in answer.json()["detail"] and "target_prefix" in answer.json()["detail"]
