"""Word classes of translations, by which gates are averaged."""

from training.reproduce.word_classes import tagger_languages, word_classes


def test_words_of_an_english_sentence_have_their_classes() -> None:
    words = "Two young men are quickly painting the house of Mary and it was not hers .".split()
    assert word_classes(words, "en") == [
        "number", "adjective", "noun", "auxiliary", "adverb", "verb", "determiner", "noun", "preposition", "name",
        "conjunction", "pronoun", "auxiliary", "adverb", "pronoun", "punctuation",
    ]  # fmt: skip


def test_words_of_a_german_sentence_have_their_classes() -> None:
    words = "Zwei junge Männer haben das Haus von Maria schnell gestrichen und sie schlafen nicht .".split()
    assert word_classes(words, "de") == [
        "number", "adjective", "noun", "auxiliary", "determiner", "noun", "preposition", "name", "adjective", "verb",
        "conjunction", "pronoun", "verb", "adverb", "punctuation",
    ]  # fmt: skip


def test_languages_without_classes_are_not_tagged() -> None:
    assert tagger_languages() == ["de", "en"]
    assert word_classes([], "en") == []
