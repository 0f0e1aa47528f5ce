"""The demo's machine translations are references with exactly the recorded errors."""

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from training.data.dataset import open_dataset, read_rows
from training.demo.corpus import CorpusPlan, Split, generate_once
from training.demo.grammar.word_forms import Form, WordForms
from training.demo.pairs import Pair
from training.demo.postedit import (
    POSTEDIT,
    ErrorInjector,
    InjectedError,
    PostEdit,
    make_postedit,
    postedit_corpus,
    restricted_grammar,
    rules,
)
from training.demo.text import PUNCTUATION, count_words, join_words

SMALL = CorpusPlan(seed=5, train=300, dev=5, test=10, min_count=1)
# Changes with every word or rule; then write the new digest here. Older results are not comparable any more.
SMALL_SHA256 = "9a46bbd175c381c9b17ca6e292f119209be62a5d06dd0c02c973b2fc88f6d191"


def digest(folder: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.iterdir()))).hexdigest()


@pytest.fixture(scope="module")
def corpus() -> dict[Split, list[PostEdit]]:
    return postedit_corpus()


@pytest.fixture(scope="module")
def everything(corpus: dict[Split, list[PostEdit]]) -> list[PostEdit]:
    return [edit for edits in corpus.values() for edit in edits]


@pytest.fixture(scope="module")
def forms() -> WordForms:
    return WordForms(*restricted_grammar())


def lowered(words: tuple[str, ...]) -> list[str]:
    return [word.lower() for word in words]


def single(edits: list[PostEdit], kind: str) -> list[tuple[PostEdit, InjectedError]]:
    """The rows whose only error is of this kind."""
    return [(edit, edit.errors[0]) for edit in edits if [each.kind for each in edit.errors] == [kind]]


def corrupted(edit: PostEdit) -> list[str]:
    """The target with its errors applied again, from the gold data alone."""
    words = [[word] for word in edit.target]
    for error in edit.errors:
        assert [word.lower() for place in error.at for word in words[place]] == error.right.lower().split()
        for place in error.at:
            words[place] = []
        words[error.at[0]] = error.wrong.split()
    return [word for slot in words for word in slot]


def test_the_same_seed_gives_the_same_text_for_any_hash_seed(tmp_path: Path):
    code = f"from training.demo.postedit import *; make_postedit({SMALL}, Path('.'))"
    environment = {**os.environ, "PYTHONHASHSEED": "11", "PYTHONPATH": str(Path(__file__).parents[3])}
    (tmp_path / "there").mkdir()
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "there", env=environment, check=True)
    (tmp_path / "here").mkdir()
    make_postedit(SMALL, tmp_path / "here")
    assert digest(tmp_path / "there") == digest(tmp_path / "here") == SMALL_SHA256


def test_another_seed_makes_other_errors():
    one, other = (postedit_corpus(plan)["train"] for plan in (SMALL, replace(SMALL, seed=6)))
    assert not {edit.mt for edit in one} & {edit.mt for edit in other}


def test_its_size(corpus: dict[Split, list[PostEdit]], everything: list[PostEdit]):
    assert {split: len(edits) for split, edits in corpus.items()} == {"train": 6_000, "dev": 400, "test": 400}
    shortest, longest = rules().words
    assert {count_words(side) for edit in everything for side in (edit.source, edit.target)} == {
        *range(shortest, longest + 1)
    }
    assert len({edit.source for edit in everything}) == len({edit.target for edit in everything}) == len(everything)
    assert all(edit.mt[0][0].isupper() and edit.mt[-1] in PUNCTUATION for edit in everything)


def test_heldout_words_are_known(corpus: dict[Split, list[PostEdit]]):
    counts = Counter(word for edit in corpus["train"] for side in (edit.source, edit.target) for word in lowered(side))
    for split in ("dev", "test"):
        for edit in corpus[split]:
            assert all(counts[word] >= 5 for side in (edit.source, edit.target) for word in lowered(side))


def test_some_rows_need_no_edit_and_the_others_one_to_three(
    corpus: dict[Split, list[PostEdit]], everything: list[PostEdit]
):
    for edits in corpus.values():
        assert sum(not edit.errors for edit in edits) == round(0.17 * len(edits))
    for edit in everything:
        assert (edit.mt == edit.target) == (not edit.errors), edit
    assert set(Counter(len(edit.errors) for edit in everything)) == {0, 1, 2, 3}


def test_the_gold_records_every_change(everything: list[PostEdit]):
    for edit in everything:
        assert [word.lower() for word in corrupted(edit)] == lowered(edit.mt), edit


def test_every_corruption_is_frequent(everything: list[PostEdit]):
    counts = Counter(error.kind for edit in everything for error in edit.errors)
    assert set(counts) == set(rules().corruptions)
    assert min(counts.values()) > 100 and max(counts.values()) < 0.25 * counts.total()


def test_the_translation_helps_and_the_source_is_needed(everything: list[PostEdit]):
    """Most words of a target occur in the machine translation; a tenth of the rows lacks a word that only the source
    determines."""
    kept = sum(len(set(edit.target) & set(edit.mt)) for edit in everything)
    assert 0.75 < kept / sum(len(set(edit.target)) for edit in everything) < 0.9
    missing = [edit for edit in everything if {each.kind for each in edit.errors} & {"dropped", "wrong word"}]
    assert len(missing) > len(everything) / 4
    for edit, error in [*single(everything, "dropped"), *single(everything, "wrong word")]:
        assert lowered(edit.mt).count(error.right.lower()) == lowered(edit.target).count(error.right.lower()) - 1


def test_each_corruption(everything: list[PostEdit], forms: WordForms):
    read: dict[str, set[tuple[str, str]]] = {
        text: {(form.word_class, form.lemma) for form in readings} for text, readings in forms.analyses.items()
    }
    for kind in rules().corruptions:
        edits = single(everything, kind)
        assert len(edits) > 20, kind
        for edit, error in edits:
            right, wrong = error.right.split(), error.wrong.split()
            match kind:
                case "article" | "ending" | "agreement":
                    assert len(right) == len(wrong) == 1 and read[right[0]] & read[wrong[0]], error
                case "wrong word":
                    assert len(right) == len(wrong) == 1
                    assert {of for of, _ in read[right[0]]} & {of for of, _ in read[wrong[0]]}
                    assert not read[right[0]] & read[wrong[0]] or right[0] != wrong[0]
                case "untranslated":
                    assert set(lowered(tuple(wrong))) <= set(lowered(edit.source)) and len(right) == 1
                case "doubled":
                    assert wrong == right * 2
                case "dropped":
                    assert len(right) == 1 and not wrong
                case "prefix":
                    assert not wrong or (len(wrong) == 1 and right[0].endswith(wrong[0]) and right[0] != wrong[0])
                case "word order":
                    assert len(right) == 2 and wrong == right[::-1]
                case "verb position":
                    assert wrong in ([right[0], right[-1], *right[1:-1]], [*right[1:], right[0]]), error
                    assert not set(right) & set(PUNCTUATION)


def test_the_lexicon_of_a_small_set_is_complete():
    """Every kind and noun that its words and rules name exists; a KeyError names a missing one."""
    words, grammar = restricted_grammar()
    for verbs in words.verbs.values():
        assert len(verbs) <= rules().verbs
        for entry in verbs.values():
            for kinds in (entry.subject, entry.object, entry.recipient, entry.place, entry.goal):
                words.nouns_of(kinds)
    for adjective in words.adjectives.values():
        words.nouns_of(adjective.of)
    assert len(words.adjectives) == rules().adjectives
    assert all(len(sentence.clauses) <= rules().clauses for sentence in grammar.sentences)
    assert len(words.noun) < 200


@pytest.mark.parametrize(
    ("sentence", "index", "english", "of", "lemma"),
    [
        ("der Hund schläft .", 0, ["the"], "determiner", ""),
        ("der Hund , der schläft , ist alt .", 3, ["that"], None, None),  # a relative pronoun
        ("ein alter Hund schläft .", 1, ["old"], "adjective", "alt"),
        ("sie macht die Tür auf .", 4, ["opens"], "prefix", "auf"),
        ("sie sitzt auf dem Stuhl .", 2, ["on"], None, None),  # a preposition
        ("sein Hund will alt sein .", 0, ["his"], "determiner", "sein"),
        ("sein Hund will alt sein .", 4, ["be"], "auxiliary", "sein"),
        ("er hat sie aufgemacht .", 3, ["opened"], "verb", "auf|machen"),
    ],
)
def test_parts_of_speech(forms: WordForms, sentence: str, index: int, english: list[str], of, lemma):
    form = forms.analyse(sentence.split(), index, english)
    assert (form and form.word_class, form and form.lemma) == (of, lemma)


def test_other_forms_and_words(forms: WordForms):
    assert forms.other_forms(Form("determiner", "ein", "m accusative"), "einen") == [
        "ein", "einem", "eines", "eine", "einer",
    ]  # fmt: skip
    assert set(forms.other_forms(Form("adjective", "alt", "en"), "alten")) == {"alte", "alter", "altes", "altem"}
    assert forms.other_forms(Form("verb", "sehen", "present 2"), "sieht") == ["sehe", "siehst", "sehen"]
    assert forms.other_forms(Form("verb", "sehen", "present 3"), "sehen") == []  # could be the infinitive
    assert "Wolf" not in forms.other_words(Form("noun", "Katze", "s nominative"), "Katze", None)
    for word in forms.other_words(Form("noun", "Mutter", "s nominative"), "Mutter", None):
        assert {form.lemma: restricted_grammar()[0].noun[form.lemma].gender for form in forms.analyses[word]} == {
            word: "f"
        }
    assert forms.unprefixed(Form("verb", "auf|machen", "participle")) == "gemacht"
    assert forms.unprefixed(Form("verb", "auf|machen", "zu")) == "zumachen"
    assert forms.unprefixed(Form("verb", "auf|machen", "present 2")) is None


def pair(de: str, en: str, links: str) -> Pair:
    every = tuple((int(i), int(j)) for i, j in (link.split("-") for link in links.split()))
    return Pair(tuple(de.split()), tuple(en.split()), every, frozenset())


@pytest.mark.parametrize(
    ("sentences", "index", "mt"),
    [
        (
            ("Ich gehe , weil er den Hund sieht .", "I go because he sees the dog .",
             "0-0 1-1 3-2 4-3 5-5 6-6 7-4 8-7"), 7, "ich gehe , weil er sieht den Hund .",
        ),
        (
            ("Die Frau hat den Hund gekauft .", "The woman bought the dog .", "0-0 1-1 2-2 3-3 4-4 5-2 6-5"),
            5, "die Frau hat gekauft den Hund .",
        ),
        (
            ("Gestern kaufte Anna den Hund .", "Yesterday Anna bought the dog .", "0-0 1-2 2-1 3-3 4-4 5-5"),
            1, "gestern Anna kaufte den Hund .",
        ),
        (("Anna kauft den Hund .", "Anna buys the dog .", "0-0 1-1 2-2 3-3 4-4"), 1, None),
    ],
)  # fmt: skip
def test_verbs_are_placed_as_in_english(sentences: tuple[str, str, str], index: int, mt: str | None):
    injector = ErrorInjector(1)
    draft = injector.draft(pair(*sentences))
    form = injector.forms.analyse(draft.right, index, draft.english(index))
    done = injector.move_as_in_english(draft, index, form)
    if mt is None:
        assert not done
    assert " ".join(word for slot in draft.slots for word in slot) == (mt or " ".join(draft.right))


def test_the_set_is_read_like_any_other_set(tmp_path: Path):
    folder = generate_once("demo-postedit", tmp_path, POSTEDIT, lambda _, folder: make_postedit(SMALL, folder))
    dataset = open_dataset("demo-postedit", generated=tmp_path)
    assert dataset.roots == (folder,) and dataset.task == "post-edit"
    rows = [row.texts for row in read_rows(dataset, "train", ("source", "mt", "target", "corruptions"))]
    edits = postedit_corpus(SMALL)["train"]
    assert [row[:3] for row in rows] == [(join_words(e.source), join_words(e.mt), join_words(e.target)) for e in edits]
    assert [json.loads(row[3]) for row in rows] == [
        [{"kind": m.kind, "at": list(m.at), "right": m.right, "wrong": m.wrong} for m in edit.errors] for edit in edits
    ]
