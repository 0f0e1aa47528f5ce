"""Which models translate a pair of languages through a third."""

from dataclasses import dataclass

import pytest

from interlinear.translation.paths import ModelPath, closest_pairs, pivot_paths


@dataclass(frozen=True)
class Pair:
    """What translates from one language into another."""

    source: str
    target: str

    @property
    def language_pair(self) -> tuple[str, str]:
        return self.source, self.target


def paths(*pairs: str) -> list[str]:
    """The paths for pairs such as `de-en`, as their languages."""
    models = [Pair(*pair.split(">")) for pair in pairs]
    return [
        f"{path.first.source}>{path.first.target}|{path.second.source}>{path.second.target}"
        for path in pivot_paths(models)
        if path.second
    ]


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (["de>en", "en>fr"], ["de>en|en>fr"]),
        (["de>en", "en>fr", "de>fr"], []),  # there is a model
        (["de>en", "en>fr", "de-AT>fr"], []),  # of a variant
        (["de>en", "en>de"], []),  # back into the language itself
        (["de>en", "fr>es"], []),
        (["de>es", "es>fr", "de>en", "en>fr"], ["de>en|en>fr", "de>es|es>fr"]),  # English first
        (["de>es", "es>fr", "de>it", "it>fr"], ["de>es|es>fr", "de>it|it>fr"]),
        (["de>en-GB", "en-US>fr", "en-GB>fr"], ["de>en-GB|en-GB>fr", "de>en-GB|en-US>fr"]),  # the very variant
        (["de>en", "en>fr", "fr>es"], ["de>en|en>fr", "en>fr|fr>es"]),  # one pivot at most
        (["de>lb", "de>fr", "lb>en"], ["de>lb|lb>en"]),
    ],
)
def test_paths_are_for_pairs_that_no_model_translates(pairs, expected):
    assert paths(*pairs) == expected


def test_the_closest_variants_of_both_languages_are_taken():
    models = [Pair("de", "pt"), Pair("de", "pt-BR"), Pair("en", "pt-BR"), Pair("fr", "pt")]
    assert closest_pairs(models, "de", "pt-BR") == [models[1]]
    assert closest_pairs(models, "de-CH", "pt") == [models[0]]
    assert closest_pairs(models, "en", "pt") == [models[2]]
    assert closest_pairs(models, "es", "pt") == []


def test_a_path_is_between_its_first_and_last_language():
    assert ModelPath(Pair("de", "en"), Pair("en", "fr")).language_pair == ("de", "fr")
    assert ModelPath(Pair("de", "en")).language_pair == ("de", "en")
