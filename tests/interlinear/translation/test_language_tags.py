"""Language tags in requests find the served language that they mean, and never another language."""

import pytest

from interlinear.translation.language_tags import closest_language, language_name

BASES = ["de", "en", "he", "no", "pt", "zh"]
VARIANTS = ["en-GB", "nb", "pt-BR", "zh-Hans", "zh-Hant"]


@pytest.mark.parametrize(
    ("tag", "base", "variant"),
    [
        ("de", "de", None),
        ("EN", "en", "en-GB"),
        ("en_US", "en", "en-GB"),
        ("de-AT", "de", None),
        ("deu", "de", None),
        ("zh_CN", "zh", "zh-Hans"),
        ("zh-Hans", "zh", "zh-Hans"),
        ("zh-TW", "zh", "zh-Hant"),
        ("ZH", "zh", "zh-Hans"),
        ("cmn", "zh", "zh-Hans"),
        ("pt-BR", "pt", "pt-BR"),
        ("pb", "pt", "pt-BR"),  # LibreTranslate's former codes
        ("zt", "zh", "zh-Hant"),
        ("iw", "he", None),  # as discourse-translator sends Hebrew
        ("nb_NO", "no", "nb"),
        ("no", "no", "nb"),
        ("lb", None, None),  # close to German, and not German
        ("yue", None, None),
        ("zz", None, None),
        ("auto", None, None),
        ("x-private", None, None),
        ("en-" * 20 + "x", None, None),
    ],
)
def test_a_tag_means_the_closest_served_variant_of_its_language(tag, base, variant):
    assert closest_language(tag, BASES) == base
    assert closest_language(tag, VARIANTS) == variant


def test_an_exact_variant_is_preferred_to_the_base():
    assert closest_language("pt-BR", ["pt", "pt-BR"]) == "pt-BR"
    assert closest_language("zh", ["zh-Hant", "zh-Hans"]) == "zh-Hans"


@pytest.mark.parametrize(
    ("code", "name"),
    [("de", "German"), ("zh-Hant", "Chinese (traditional)"), ("pt_BR", "Portuguese (Brazil)"), ("xx-YY", "xx-YY")],
)
def test_names_say_the_variant(code, name):
    assert language_name(code) == name
