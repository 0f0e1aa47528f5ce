"""The demo corpus: correct, disjoint splits, aligned, and reproducible."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from seq2seq.errors import DataError
from seq2seq.text import TextConfig, Tokenizer
from training.demo.corpus import (
    DEMO,
    CorpusPlan,
    Split,
    content_hash,
    demo_corpus,
    generate_once,
    lowercase_words,
    make_demo,
    write,
)
from training.demo.grammar.english import English
from training.demo.grammar.german import German
from training.demo.grammar.lexicon import FOLDER, Determiner, Number, grammar, lexicon
from training.demo.grammar.sentences import SentenceGenerator
from training.demo.pairs import Pair
from training.demo.text import PUNCTUATION, count_words, join_words

# Of fewer pairs, so few words are frequent enough for the test set that it takes ten times as long.
SMALL = CorpusPlan(seed=5, train=2_000, dev=10, test=20)
# Changes with every word or rule; then write the new digest here. Older results are not comparable any more.
SMALL_SHA256 = "bae36044cb2263e669bb1d756ab6e86443d235dbbb5ab9828c56bf81f45e6351"


def digest(folder: Path) -> str:
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.iterdir()))).hexdigest()


@pytest.fixture(scope="module")
def corpus() -> dict[Split, list[Pair]]:
    return demo_corpus()


@pytest.fixture(scope="module")
def everything(corpus: dict[Split, list[Pair]]) -> list[Pair]:
    return [pair for pairs in corpus.values() for pair in pairs]


def aligned(pair: Pair, word: str) -> set[str]:
    """The English words that a German word is aligned with."""
    return {pair.en[j] for i, j in pair.links if pair.de[i] == word}


def having(pairs: Iterable[Pair], *words: str) -> list[Pair]:
    return [pair for pair in pairs if set(words) <= {*pair.de, *pair.en}]


def test_the_same_seed_gives_the_same_text_for_any_hash_seed(tmp_path: Path):
    code = f"from pathlib import Path; from training.demo.corpus import *; write(demo_corpus({SMALL}), Path('.'))"
    environment = {**os.environ, "PYTHONHASHSEED": "11", "PYTHONPATH": str(Path(__file__).parents[3])}
    (tmp_path / "there").mkdir()
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "there", env=environment, check=True)
    (tmp_path / "here").mkdir()
    write(demo_corpus(SMALL), tmp_path / "here")
    assert digest(tmp_path / "there") == digest(tmp_path / "here") == SMALL_SHA256


def test_another_seed_gives_another_text():
    other = demo_corpus(replace(SMALL, seed=6))
    assert not {pair.de for pair in other["train"]} & {pair.de for pair in demo_corpus(SMALL)["train"]}


def test_its_size(corpus: dict[Split, list[Pair]]):
    words = lexicon()
    lemmas = {*words.noun, *words.adjectives, *(verb for frame in words.verbs.values() for verb in frame)}
    seen = {word.lower() for pair in corpus["train"] for word in pair.de if word not in PUNCTUATION}
    assert {split: len(pairs) for split, pairs in corpus.items()} == {"train": 12_000, "dev": 500, "test": 1_000}
    assert len(lemmas) >= 500
    assert len(seen) >= 1_500


def test_every_lemma_is_used(everything: list[Pair]):
    said = {word for pair in everything for word in pair.de}
    german = German(lexicon(), grammar())
    for noun in lexicon().noun.values():
        numbers: tuple[Number, ...] = ("s", "p") if noun.plural else ("u",)
        assert any(german.noun(noun, number, case) in said for number in numbers for case in grammar().cases), noun.de


def test_no_sentence_twice_on_either_side(everything: list[Pair]):
    assert len({join_words(pair.de) for pair in everything}) == len(everything)
    assert len({join_words(pair.en) for pair in everything}) == len(everything)


def test_sentences_have_four_to_sixteen_words(everything: list[Pair]):
    assert {count_words(side) for pair in everything for side in (pair.de, pair.en)} == set(range(4, 17))


def test_heldout_words_are_known_but_half_of_the_sentences_are_new_combinations(corpus: dict[Split, list[Pair]]):
    counts = Counter(word for pair in corpus["train"] for word in lowercase_words(pair))
    known = {word for word, count in counts.items() if count >= 5}
    combined = {words for pair in corpus["train"] for words in pair.combinations}
    for split in ("dev", "test"):
        assert all(known.issuperset(lowercase_words(pair)) for pair in corpus[split])
        new = [pair for pair in corpus[split] if not combined >= pair.combinations]
        assert len(new) >= len(corpus[split]) / 2


def test_every_word_is_aligned_and_commas_only_if_both_sides_have_one(everything: list[Pair]):
    for pair in everything:
        sources, targets = {i for i, _ in pair.links}, {j for _, j in pair.links}
        assert sources <= set(range(len(pair.de)))
        assert targets <= set(range(len(pair.en)))
        assert {pair.de[i] for i in set(range(len(pair.de))) - sources} <= {","}, pair
        assert {pair.en[j] for j in set(range(len(pair.en))) - targets} <= {","}, pair
        assert len(set(pair.links)) == len(pair.links)
        assert (len(pair.de) - 1, len(pair.en) - 1) in pair.links  # the final punctuation


def test_alignments_count_words_as_a_tokenizer_does(everything: list[Pair]):
    sample = everything[::300]
    texts = [join_words(side) for pair in sample for side in (pair.de, pair.en)]
    tokenizer = Tokenizer.train(texts, TextConfig(units="words", vocabulary=5000))
    for pair in sample:
        for side in (pair.de, pair.en):
            text = join_words(side)
            assert [text[start:end] for start, end in tokenizer.word_spans(text)] == list(side)


def test_verb_final_clauses_cross(everything: list[Pair]):
    for word in ("weil", "dass", "obwohl"):
        clauses = [pair for pair in having(everything, word) if pair.de.index(word) > 0]
        crossing = [
            pair
            for pair in clauses
            if any(i > k and j < m for i, j in pair.links for k, m in pair.links if pair.de.index(word) < k < i)
        ]
        assert len(clauses) > 100
        assert len(crossing) > 0.7 * len(clauses)  # the other clauses contain only the subject


def test_separable_verbs_are_aligned_with_both_their_parts(everything: list[Pair]):
    apart = having(everything, "macht", "auf", "opens")
    assert apart
    for pair in apart:
        assert aligned(pair, "macht") == {"opens"}
    assert any(aligned(pair, "aufgemacht") == {"opened"} for pair in having(everything, "aufgemacht", "opened"))
    assert any("to" in aligned(pair, "aufzumachen") for pair in having(everything, "aufzumachen"))
    away = having(everything, "wirft", "weg", "throws")
    assert any(aligned(pair, "wirft") == {"throws"} and aligned(pair, "weg") == {"away"} for pair in away)


def test_a_perfect_is_aligned_at_both_ends(everything: list[Pair]):
    for pair in having(everything, "hat", "gekauft", "bought"):
        assert "bought" in aligned(pair, "gekauft")


def test_a_compound_is_aligned_with_all_its_words(everything: list[Pair]):
    compounds = having(everything, "Küchentisch")
    assert compounds
    for pair in compounds:
        assert aligned(pair, "Küchentisch") == {"kitchen", "table"}


def test_a_verb_that_swaps_its_arguments(everything: list[Pair]):
    liked = [pair for pair in having(everything, "gefällt", "likes") if pair.de[-2] == "gefällt" or "dem" in pair.de]
    assert any(i < k and j > m for pair in liked for i, j in pair.links for k, m in pair.links)


def test_articles_before_vowels(everything: list[Pair]):
    for pair in everything:
        for word, after in zip(pair.en, pair.en[1:], strict=False):
            if word.lower() == "an":
                assert after[0] in "aeiou" or after.startswith("hon"), pair.en
            if word.lower() == "a":
                assert after[0] not in "aeio" and not after.startswith(("un", "um", "ug", "hon")), pair.en


def test_sentences_are_written_as_text(everything: list[Pair]):
    for pair in everything:
        for side in (pair.de, pair.en):
            text = join_words(side)
            assert text[0].isupper() and text[-1] in ".?!"
            assert "  " not in text and " ," not in text and ",," not in text and ",." not in text


@pytest.mark.parametrize(
    ("noun", "number", "case", "form"),
    [
        ("Hund", "p", "dative", "Hunden"),
        ("Auto", "p", "dative", "Autos"),
        ("Haus", "s", "genitive", "Hauses"),
        ("Lehrer", "s", "genitive", "Lehrers"),
        ("Frau", "s", "genitive", "Frau"),
        ("Nachbar", "s", "accusative", "Nachbarn"),
        ("Student", "s", "dative", "Studenten"),
        ("Museum", "s", "genitive", "Museums"),
    ],
)
def test_german_nouns(noun, number, case, form):
    assert German(lexicon(), grammar()).noun(lexicon().noun[noun], number, case) == form


@pytest.mark.parametrize(
    ("stem", "noun", "number", "case", "form"),
    [
        ("", "Hund", "s", "accusative", "den alten Hund"),
        ("ein", "Hund", "s", "nominative", "ein alter Hund"),
        ("ein", "Haus", "s", "accusative", "ein altes Haus"),
        ("mein", "Kuh", "s", "dative", "meiner alten Kuh"),
        ("viel", "Haus", "p", "dative", "vielen alten Häusern"),
        (None, "Baum", "p", "nominative", "alte Bäume"),
    ],
)
def test_german_agreement(stem, noun, number, case, form):
    german, entry = German(lexicon(), grammar()), lexicon().noun[noun]
    determiner: Determiner = next(d for d in grammar().determiners if d.stem == stem and number in d.number)
    words = (
        german.determiner(determiner, entry, number, case),
        german.adjective("alt", determiner, entry, number, case),
        german.noun(entry, number, case),
    )
    assert " ".join(filter(None, words)) == form


@pytest.mark.parametrize(
    ("verb", "form", "person", "expected"),
    [
        ("auf|machen", "present", 2, ("macht", "auf")),
        ("lesen", "present", 1, ("liest", "")),
        ("arbeiten", "present", 1, ("arbeitest", "")),
        ("tanzen", "present", 1, ("tanzt", "")),
        ("sammeln", "present", 0, ("sammle", "")),
        ("öffnen", "past", 4, ("öffneten", "")),
        ("gehen", "past", 4, ("gingen", "")),
        ("reparieren", "participle", 2, ("repariert", "")),
        ("verkaufen", "participle", 2, ("verkauft", "")),
        ("vor|bereiten", "participle", 2, ("bereitet", "vor")),
        ("lesen", "imperative", 2, ("lies", "")),
        ("fahren", "imperative", 2, ("fahr", "")),
        ("öffnen", "imperative", 2, ("öffne", "")),
    ],
)
def test_german_verbs(verb, form, person, expected):
    assert German(lexicon(), grammar()).verb(verb, form, person) == expected


@pytest.mark.parametrize(
    ("verb", "form", "expected"),
    [
        ("carry", "present", "carries"),
        ("play", "present", "plays"),
        ("watch", "present", "watches"),
        ("go", "present", "goes"),
        ("cry", "past", "cried"),
        ("plan", "past", "planned"),
        ("buy", "past", "bought"),
        ("dance", "ing", "dancing"),
        ("see", "ing", "seeing"),
        ("lie", "ing", "lying"),
        ("swim", "ing", "swimming"),
        ("take", "participle", "taken"),
    ],
)
def test_english_verbs(verb, form, expected):
    assert English(lexicon(), grammar()).verb(verb, form) == expected


def test_every_kind_and_prefix_named_by_the_lexicon_exists():
    words, rules = lexicon(), grammar()
    for frame, verbs in words.verbs.items():
        assert frame in rules.frames
        for verb, entry in verbs.items():
            for kinds in (entry.subject, entry.object, entry.recipient, entry.place, entry.goal):
                words.nouns_of(kinds)  # a KeyError names the unknown one
            assert entry.manner is None or entry.manner in words.adverbs, verb
    for adjective in words.adjectives.values():
        words.nouns_of(adjective.of)
    for sentence in rules.sentences:
        for clause in sentence.clauses.values():
            assert clause.layout in rules.layouts
            assert set(clause.frames) <= set(rules.frames)
            assert set(clause.tenses) <= set(rules.tenses)
    for adverbs in words.adverbs.values():
        for adverb in adverbs.values():
            assert set(adverb.tenses) <= set(rules.tenses)


def test_a_german_word_has_one_english_word():
    """Otherwise a translation would not be a function of its source."""
    words = lexicon()
    adverbs: dict[str, str] = {}
    for group in words.adverbs.values():
        for de, adverb in group.items():
            assert adverbs.setdefault(de, adverb.en) == adverb.en
    generator = SentenceGenerator(words, grammar(), 3)
    english: dict[str, str] = {}
    for pair in (generator.next_pair() for _ in range(2_000)):
        assert english.setdefault(join_words(pair.de), join_words(pair.en)) == join_words(pair.en)


def test_the_corpus_is_generated_once_by_concurrent_processes(tmp_path: Path):
    with ThreadPoolExecutor(2) as pool:
        folders = set(pool.map(lambda _: generate_once("demo", tmp_path, SMALL, make_demo), range(2)))
    (folder,) = folders
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]  # no unfinished file is left
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        f"{split}.{suffix}" for split in ("train", "dev", "test") for suffix in ("de", "en", "align")
    )
    before = (folder / "train.de").stat().st_mtime_ns
    assert generate_once("demo", tmp_path, SMALL, make_demo) == folder
    assert (folder / "train.de").stat().st_mtime_ns == before


def test_the_hash_of_a_corpus_depends_on_every_module_and_yaml_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "demo"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr("training.demo.corpus.FOLDER", folder)
    hashes = {content_hash(SMALL), content_hash(DEMO)}
    changed = [folder / "corpus.py", folder / "scenes.yaml", folder / "grammar" / "grammar.yaml"]
    for path in changed:
        path.write_text(path.read_text(encoding="utf-8") + "\n", encoding="utf-8")
        hashes.add(content_hash(SMALL))
    assert len(hashes) == 2 + len(changed)


def test_an_unwritable_folder_is_reported(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        generate_once("demo", tmp_path / "file" / "below", SMALL, make_demo)


def test_files_have_a_line_for_each_pair(tmp_path: Path):
    corpus = demo_corpus(SMALL)
    write(corpus, tmp_path)
    lines = {
        suffix: (tmp_path / f"test.{suffix}").read_text(encoding="utf-8").splitlines()
        for suffix in ("de", "en", "align")
    }
    assert {len(text) for text in lines.values()} == {SMALL.test}
    assert lines["de"][0] == join_words(corpus["test"][0].de)
    assert lines["align"][0] == " ".join(f"{i}-{j}" for i, j in corpus["test"][0].links)
