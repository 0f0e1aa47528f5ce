"""The grammar of the demo world: it still writes the text that ships, and its text is as docs/datasets.md says."""

import gzip
import itertools
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from tools.demo_world.corpus import CorpusPlan, GeneratedPair, demo_corpus, lowercase_words
from tools.demo_world.grammar.english import English
from tools.demo_world.grammar.german import German
from tools.demo_world.grammar.lexicon import grammar, lexicon
from tools.demo_world.grammar.sentences import SentenceGenerator
from tools.demo_world.headlines import HEADLINES, headline_corpus
from tools.demo_world.pairs import Pair, Story
from tools.demo_world.postedit import PostEdit, postedit_corpus
from tools.demo_world.postedit import rules as postedit_rules
from tools.demo_world.scenes import CELL, Scene, scene_corpus
from tools.demo_world.scenes import rules as scene_rules
from tools.demo_world.text import count_words, join_words
from training.yaml_files import resource_folder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
MIDDLE = {"train": 2_000, "dev": 100, "test": 200}


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return [pair for split in demo_corpus(CorpusPlan(train=4_000, dev=100, test=200)).values() for pair in split]


@pytest.fixture(scope="module")
def stories() -> list[Story]:
    return [story for split in headline_corpus(CorpusPlan(**MIDDLE, novel=0.1)).values() for story in split]


@pytest.fixture(scope="module")
def scenes() -> dict[str, list[Scene]]:
    return {split: list(rows) for split, rows in scene_corpus().items()}


@pytest.fixture(scope="module")
def edits() -> list[PostEdit]:
    return [edit for split in postedit_corpus(CorpusPlan(**MIDDLE)).values() for edit in split]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def test_it_writes_the_text_that_ships_for_any_hash_seed(tmp_path: Path):
    command = [sys.executable, "-m", "tools.demo_world", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": "11"}, check=True)
    corpora = resource_folder("corpora")
    shipped = {path.relative_to(corpora): path for path in corpora.glob("demo*/*")}
    written = {path.relative_to(tmp_path): path for path in tmp_path.glob("*/*")}
    assert len(shipped) == 40 and set(shipped) == set(written)
    for name, path in shipped.items():  # the compressed bytes depend on zlib
        assert gzip.decompress(path.read_bytes()) == gzip.decompress(written[name].read_bytes()), name


# What dev and test contain.


@pytest.mark.parametrize(
    "corpus",
    [lambda: demo_corpus(CorpusPlan(train=4_000, dev=100, test=200)), lambda: headline_corpus(HEADLINES)],
    ids=["demo", "demo-headline"],
)
def test_heldout_words_are_known_but_half_of_the_pairs_are_new_combinations(corpus):
    splits = corpus()
    everything: list[GeneratedPair] = [pair for split in splits.values() for pair in split]
    for side in (0, 1):
        assert len({pair.sides[side] for pair in everything}) == len(everything)
    counts = Counter(word for pair in splits["train"] for word in lowercase_words(pair))
    combined = {combination for pair in splits["train"] for combination in pair.combinations}
    for split in ("dev", "test"):
        assert all(counts[word] >= 5 for pair in splits[split] for word in lowercase_words(pair))
        new = [pair for pair in splits[split] if not combined >= pair.combinations]
        assert len(new) >= len(splits[split]) / 2


# Sentences.


def test_a_german_sentence_has_one_translation():
    generator = SentenceGenerator(lexicon(), grammar(), 3)
    english: dict[str, str] = {}
    for pair in (generator.next_pair() for _ in range(2_000)):
        assert english.setdefault(join_words(pair.de), join_words(pair.en)) == join_words(pair.en)


def test_sentences_are_written_as_text(pairs: list[Pair]):
    assert {count_words(side) for pair in pairs for side in pair.sides} == set(range(4, 17))
    for text in (join_words(side) for pair in pairs for side in pair.sides):
        assert text[0].isupper() and text[-1] in ".?!"
        assert not re.search(r"  | ,|,,|,\.", text)
    for text in (join_words(pair.en).lower() for pair in pairs):
        assert not re.search(r"\ba (?:[aeio]|u[nmg])|\ban [^aeiouh]", text), text


def test_verb_final_clauses_cross(pairs: list[Pair]):
    for word in ("weil", "dass", "obwohl"):
        clauses = [pair for pair in pairs if word in pair.de[1:]]
        crossing = [pair for pair in clauses if crosses(pair.links, pair.de.index(word))]
        assert len(clauses) > 30
        assert len(crossing) > 0.7 * len(clauses)  # the other clauses contain only the subject


def crosses(links: Iterable[tuple[int, int]], first: int) -> bool:
    """Whether two links cross behind a source position."""
    return any(i > k > first and j < m for (i, j), (k, m) in itertools.permutations(links, 2))


@pytest.mark.parametrize(
    ("stem", "noun", "number", "case", "form"),
    [
        ("", "Hund", "s", "accusative", "den alten Hund"),
        ("ein", "Hund", "s", "nominative", "ein alter Hund"),
        ("mein", "Kuh", "s", "dative", "meiner alten Kuh"),
        ("viel", "Haus", "p", "dative", "vielen alten Häusern"),
        ("", "Museum", "s", "genitive", "des alten Museums"),
        ("", "Nachbar", "s", "accusative", "den alten Nachbarn"),
        (None, "Baum", "p", "nominative", "alte Bäume"),
    ],
)
def test_german_agreement(stem, noun, number, case, form):
    german, entry = German(lexicon(), grammar()), lexicon().noun[noun]
    determiner = next(d for d in grammar().determiners if d.stem == stem and number in d.number)
    phrase = (
        german.determiner(determiner, entry, number, case),
        german.adjective("alt", determiner, entry, number, case),
        german.noun(entry, number, case),
    )
    assert " ".join(filter(None, phrase)) == form


@pytest.mark.parametrize(
    ("verb", "form", "person", "expected"),
    [
        ("auf|machen", "present", 2, ("macht", "auf")),
        ("lesen", "present", 1, ("liest", "")),
        ("sammeln", "present", 0, ("sammle", "")),
        ("öffnen", "past", 4, ("öffneten", "")),
        ("verkaufen", "participle", 2, ("verkauft", "")),
        ("vor|bereiten", "participle", 2, ("bereitet", "vor")),
        ("fahren", "imperative", 2, ("fahr", "")),
    ],
)
def test_german_verbs(verb, form, person, expected):
    assert German(lexicon(), grammar()).verb(verb, form, person) == expected


def test_english_verbs():
    english = English(lexicon(), grammar())
    forms = [("carry", "present"), ("go", "present"), ("plan", "past"), ("lie", "ing"), ("swim", "ing")]
    assert [english.verb(*form) for form in forms] == ["carries", "goes", "planned", "lying", "swimming"]


# Headlines.


def test_a_headline_selects_and_reorders_content(stories: list[Story]):
    """Most of its words occur in the passage, but are not its first words and not in its order."""
    headlines = [(set(story.headline), story) for story in stories]
    total = sum(len(headline) for headline, _ in headlines)
    assert 0.6 < sum(len(headline & set(story.passage)) for headline, story in headlines) / total < 0.8
    assert (
        sum(len(headline & set(story.passage[: len(story.headline)])) for headline, story in headlines) / total < 0.35
    )
    assert sum(crosses(story.links, -1) for story in stories) > len(stories) / 4
    for story in stories:
        linked = {j for _, j in story.links}
        assert {word for j, word in enumerate(story.headline) if j not in linked} <= {"to", ","}, story


@pytest.mark.parametrize(
    ("passage", "headline", "word", "made_from"),
    [
        ("could not", "fails to", "fails", ["could", "not"]),
        ("police officer", "cop", "cop", ["police", "officer"]),
        ("repaired", "fixes", "fixes", ["repaired"]),
        ("according to", "says", "says", ["according", "to"]),
        ("by", "by", "by", ["by"]),
    ],
)
def test_changes_of_a_headline(stories: list[Story], passage: str, headline: str, word: str, made_from: Sequence[str]):
    changed = [s for s in stories if f" {passage} " in f" {' '.join(s.passage)} " and headline in " ".join(s.headline)]
    sources = [[s.passage[i] for i, j in s.links if s.headline[j] == word] for s in changed]
    assert made_from in sources, changed[:3]


# Scenes.


def test_the_text_never_reveals_the_reading(scenes: dict[str, list[Scene]]):
    """In each split, with and without images, every English sentence occurs with both readings."""
    for rows in scenes.values():
        readings = defaultdict(list)
        for scene in rows:
            if scene.reading:
                readings[scene.en, scene.image is None].append(scene.reading.reading)
                assert words(scene.de).count(scene.reading.form.lower()) == 1
        for (english, _), both in readings.items():
            (word,) = set(words(english)) & set(scene_rules().ambiguous)
            assert sorted(both) == sorted(de for de, _, _ in scene_rules().ambiguous[word]), english


def test_an_image_shows_what_the_sentence_says(scenes: dict[str, list[Scene]]):
    nouns = {lexicon().noun[de].en: de for de in scene_rules().plain}
    checked: Counter[str] = Counter()
    for scene in (scene for rows in scenes.values() for scene in rows if scene.image):
        assert scene.image
        objects = {each.name: each for each in scene.image.objects}
        assert len({(each.top // CELL, each.left // CELL) for each in scene.image.objects}) == len(objects) in (2, 3)
        for before, noun in itertools.pairwise(words(scene.en)):
            if noun in nouns:
                checked["noun"] += 1
                assert before not in ("red", "blue", "green", "yellow") or objects[nouns[noun]].colour == before
        for relation in (each for each in scene_rules().relations if each.en in scene.en.lower()):
            first, second = scene.image.objects[:2]
            checked["relation"] += 1
            assert (first.top // CELL - second.top // CELL, first.left // CELL - second.left // CELL) == relation.step
    assert min(checked.values()) > 300 and len(checked) == 2


# Post-edits.


def test_the_gold_records_every_error(edits: list[PostEdit]):
    """The target with its errors applied again, from the gold data alone, is the machine translation."""
    for edit in edits:
        slots = [[word.lower()] for word in edit.target]
        for error in edit.errors:
            assert [word for place in error.at for word in slots[place]] == error.right.lower().split()
            for place in error.at:
                slots[place] = []
            slots[error.at[0]] = error.wrong.lower().split()
        assert [word for slot in slots for word in slot] == [word.lower() for word in edit.mt], edit
        assert (edit.mt == edit.target) == (not edit.errors) and len(edit.errors) <= 3
    counts = Counter(error.kind for edit in edits for error in edit.errors)
    assert set(counts) == set(postedit_rules().corruptions) and max(counts.values()) < 0.25 * counts.total()
