"""The demo's passages and headlines: short, aligned, dependent on content selection, and reproducible."""

import hashlib
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from seq2seq.text import TextConfig, Tokenizer
from training.data.dataset import open_dataset, read_rows
from training.demo.corpus import CorpusPlan, Split, generate_once, lowercase_words
from training.demo.grammar.lexicon import lexicon
from training.demo.headlines import HEADLINES, headline_corpus, make_headlines, rules
from training.demo.pairs import Story

SMALL = CorpusPlan(seed=5, train=300, dev=5, test=10, min_count=1, novel=0.1)
MIDDLE = replace(HEADLINES, train=2_000, dev=100, test=200)  # large enough to contain everything once
# Changes with every word or rule; then write the new digest here. Older results are not comparable any more.
SMALL_SHA256 = "891e74afe448c19a1d9ea1da799acbf8d4b290f401cd8ff1b9dd456b947ada81"


def digest(folder: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.iterdir()))).hexdigest()


@pytest.fixture(scope="module")
def corpus() -> dict[Split, list[Story]]:
    return headline_corpus(MIDDLE)


@pytest.fixture(scope="module")
def everything(corpus: dict[Split, list[Story]]) -> list[Story]:
    return [story for stories in corpus.values() for story in stories]


def made_from(story: Story, word: str) -> list[str]:
    """The words of the passage that a word of the headline is linked with."""
    return [story.passage[i] for i, j in story.links if story.headline[j] == word]


def having(stories: list[Story], passage: str, headline: str) -> list[Story]:
    """The stories that contain these words in sequence, on both sides."""
    return [
        story
        for story in stories
        if f" {passage} " in f" {' '.join(story.passage)} " and f" {headline} " in f" {' '.join(story.headline)} "
    ]


def test_the_same_seed_gives_the_same_text_for_any_hash_seed(tmp_path: Path):
    code = f"from training.demo.headlines import *; make_headlines({SMALL}, Path('.'))"
    environment = {**os.environ, "PYTHONHASHSEED": "11", "PYTHONPATH": str(Path(__file__).parents[3])}
    (tmp_path / "there").mkdir()
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "there", env=environment, check=True)
    (tmp_path / "here").mkdir()
    make_headlines(SMALL, tmp_path / "here")
    assert digest(tmp_path / "there") == digest(tmp_path / "here") == SMALL_SHA256


def test_its_size_and_lengths(corpus: dict[Split, list[Story]], everything: list[Story]):
    assert (HEADLINES.train, HEADLINES.dev, HEADLINES.test) == (10_000, 500, 1_000)
    assert {split: len(stories) for split, stories in corpus.items()} == {"train": 2_000, "dev": 100, "test": 200}
    assert {len(story.passage) for story in everything} == set(range(12, 26))
    assert {len(story.headline) for story in everything} == set(range(4, 10))
    assert all(len(story.headline) + 1 <= len(story.passage) for story in everything)  # UAM requires this
    assert all(0.28 <= len(story.headline) / len(story.passage) <= 0.5 for story in everything)


def test_no_passage_and_no_headline_twice(everything: list[Story]):
    assert len({story.passage for story in everything}) == len(everything)
    assert len({story.headline for story in everything}) == len(everything)


def test_heldout_words_are_known_but_half_of_the_stories_are_new_combinations(corpus: dict[Split, list[Story]]):
    counts = Counter(word for story in corpus["train"] for word in lowercase_words(story))
    combined = {words for story in corpus["train"] for words in story.combinations}
    for split in ("dev", "test"):
        assert all(counts[word] >= 5 for story in corpus[split] for word in lowercase_words(story))
        new = [story for story in corpus[split] if not combined >= story.combinations]
        assert len(new) >= len(corpus[split]) / 2


def test_words_without_a_source_have_no_link(everything: list[Story]):
    for story in everything:
        assert {i for i, _ in story.links} <= set(range(len(story.passage)))
        linked = {j for _, j in story.links}
        assert linked <= set(range(len(story.headline)))
        assert len(set(story.links)) == len(story.links)
        assert {word for j, word in enumerate(story.headline) if j not in linked} <= {"to", ","}, story


def test_a_headline_requires_content_selection(everything: list[Story]):
    """Most of its words occur in the passage, but are not its first words and not in its order."""
    own = first = words = 0
    for story in everything:
        own += len(set(story.headline) & set(story.passage))
        first += len(set(story.headline) & set(story.passage[: len(story.headline)]))
        words += len(set(story.headline))
    assert 0.6 < own / words < 0.8
    assert first / words < 0.35
    crossing = [story for story in everything if any(i > k and j < m for i, j in story.links for k, m in story.links)]
    assert len(crossing) > len(everything) / 4


def test_adjectives_are_left_out(everything: list[Story]):
    adjectives = {facts.en[0] for facts in lexicon().adjectives.values()} - {"light", "red", "cold"}
    nouns = {word for noun in lexicon().noun.values() for word in noun.en.split()}
    assert not [story for story in everything if set(story.headline) & (adjectives - nouns)]


@pytest.mark.parametrize(
    ("passage", "headline", "word", "words"),
    [
        ("could not", "fails to", "fails", ["could", "not"]),
        ("will", "to", "to", ["will"]),
        ("police officer", "cop", "cop", ["police", "officer"]),
        ("picked up", "collects", "collects", ["picked", "up"]),
        ("repaired", "fixes", "fixes", ["repaired"]),
        ("according to", "says", "says", ["according", "to"]),
        ("from the school", "school", "school", ["school"]),
        ("by", "by", "by", ["by"]),
    ],
)
def test_changes_of_a_headline(everything: list[Story], passage: str, headline: str, word: str, words: list[str]):
    stories = having(everything, passage, headline)
    assert any(made_from(story, word) == words for story in stories), stories[:3]


def test_a_passive_becomes_active_if_a_perfect_exists(everything: list[Story]):
    turned = [story for story in everything if {"been", "by"} <= set(story.passage)]
    kept = [story for story in everything if {"was", "by"} <= set(story.passage) and "been" not in story.passage]
    assert len(turned) > 50 and len(kept) > 50
    assert not any("by" in story.headline for story in turned)
    assert sum("by" in story.headline for story in kept) > 0.9 * len(kept)


def test_articles_and_commas(everything: list[Story]):
    for story in everything:
        passage = " ".join(story.passage)
        assert passage == passage.lower() and passage.endswith(" .")
        assert not re.search(r"\ba [aeio]|\ban [^aeiouh]|, [,.]|^,|\. \.", passage), passage


def test_every_name_in_a_template_exists():
    own = {"subject", "object", "recipient", "goal", "where", "witness"}
    own |= {"determiner", "adjective", "other-adjective", "noun", "article", "name"}
    templates = (*rules().stories, *rules().phrases)
    tokens = [token for template in templates for token in (*template.passage, *template.headline)]
    tokens += [token for options in rules().asides.values() for _, words in options for token in words]
    for name in re.findall(r"\{([^:}]+)\}", " ".join(tokens)):
        if name not in own and name not in rules().asides:
            assert lexicon().nouns_of([name]), name
    for verb in rules().untold + list(rules().shorter["verbs"]):
        assert any(entry.en == verb for frame in lexicon().verbs.values() for entry in frame.values()), verb
    for noun in rules().shorter["nouns"]:
        assert any(entry.en == noun for entry in lexicon().noun.values()), noun
    for story in rules().stories:
        assert story.frame in lexicon().verbs


def test_the_set_is_read_like_any_other_set(tmp_path: Path):
    folder = generate_once("demo-headline", tmp_path, HEADLINES, lambda _, folder: make_headlines(SMALL, folder))
    dataset = open_dataset("demo-headline", generated=tmp_path)
    assert dataset.roots == (folder,)
    rows = [row.texts for row in read_rows(dataset, "test", ("source", "target", "alignment"))]
    assert len(rows) == SMALL.test
    tokenizer = Tokenizer.train(
        [text for row in rows for text in row[:2]], TextConfig(units="words", vocabulary=2000, tokenised=True)
    )
    for passage, headline, alignment in rows:
        links = [tuple(map(int, link.split("-"))) for link in alignment.split()]
        assert max(i for i, _ in links) < len(tokenizer.word_spans(passage))
        assert max(j for _, j in links) < len(tokenizer.word_spans(headline))
