"""Random segmentation in training: its distribution, equality with `tokenizers` without randomness, resumption."""

import gzip
import math
import signal
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from interlinear.batch import Batch
from interlinear.errors import RecipeError
from interlinear.text import BYTES, SPECIAL, TextConfig, Tokenizer
from interlinear.text.vocabulary import Vocabulary
from tests.interlinear.text.test_tokenizer import GERMAN, TEXTS
from tests.parameters import slow_but
from tests.training.observers import StopAfterUpdates
from tests.training.toy import toy_job
from training.data.guide.piece_links import RowArrays
from training.data.prepare.prepared import PreparedSplit, Skipped, SplitRecord, ends_file, ids_file
from training.data.subword_sampling import AnyTextSampler, SampledSplit, text_sampler
from training.loop.batches import BatchLoader
from training.loop.trainer import train
from training.loop.windows import plan_epoch
from training.recipe import load_recipe

UNITS = ("bpe", "unigram")
LINES = [
    "der hund läuft schnell",
    "die hunde laufen, die katzen schlafen",
    "katze und hund: schnelle läufer",
    "ab abab",
]


@pytest.fixture(scope="module", params=UNITS)
def tokenizer(request) -> Tokenizer:
    return Tokenizer.train([*GERMAN, *LINES] * 3, TextConfig(units=request.param, vocabulary=500))


def random_sampler(tokenizer: Tokenizer) -> AnyTextSampler:
    if tokenizer.config.units == "bpe":
        return text_sampler(tokenizer, 0.3, None)
    return text_sampler(tokenizer, 0.0, 0.2)


def certain_sampler(tokenizer: Tokenizer) -> AnyTextSampler:
    """Without dropout, or with all probability on the best segmentation."""
    return text_sampler(tokenizer, 0.0, None if tokenizer.config.units == "bpe" else 1e4)


def score(tokenizer: Tokenizer, ids: list[int]) -> float:
    """The log-probability of a segmentation by a unigram vocabulary; bytes are free, since all segmentations have
    them."""
    scores = dict(zip(tokenizer.pieces[-len(tokenizer.vocabulary.scores) :], tokenizer.vocabulary.scores, strict=True))
    return sum(scores.get(tokenizer.pieces[number], 0.0) for number in ids)


def assert_segmented_alike(tokenizer: Tokenizer, ids: list[int], others: list[int]) -> None:
    """Two segmentations are the same, or two best ones of a unigram vocabulary."""
    if tokenizer.config.units == "bpe":
        assert ids == others
    elif ids != others:
        assert score(tokenizer, ids) == pytest.approx(score(tokenizer, others), abs=1e-3)
        assert tokenizer.split_words(ids) == tokenizer.split_words(others)


# Without randomness


@given(TEXTS)
@settings(max_examples=200)
def test_without_randomness_any_text_has_the_ids_of_tokenizers(tokenizer, text):
    (ids,) = tokenizer.ids([text])
    sampled = certain_sampler(tokenizer).sample(np.array(ids, np.uint16), Random(1).random)
    assert_segmented_alike(tokenizer, sampled.tolist(), ids)


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize(
    "name", ["multi30k/train.de.gz", pytest.param("btec-zh-en/train.zh.gz", marks=pytest.mark.slow)]
)
def test_without_randomness_real_text_has_the_ids_of_tokenizers(corpora: Path, units, name):
    with gzip.open(corpora / name, "rt", encoding="utf-8") as file:
        lines = [line.strip() for line, _ in zip(file, range(2000), strict=False)]
    tokenizer = Tokenizer.train(lines, TextConfig(units=units, vocabulary=2000))
    sampler = certain_sampler(tokenizer)
    for ids in tokenizer.ids(lines):
        sampled = sampler.sample(np.array(ids, np.uint16), Random(1).random)
        assert_segmented_alike(tokenizer, sampled.tolist(), ids)


# The distribution


@given(TEXTS, st.integers(0, 99))
@settings(max_examples=200)
def test_a_random_segmentation_is_of_the_same_text(tokenizer, text, seed):
    (ids,) = tokenizer.ids([text])
    sampled = random_sampler(tokenizer).sample(np.array(ids, np.uint16), Random(seed).random)
    assert tokenizer.split_words(sampled.tolist()) == tokenizer.split_words(ids)
    assert tokenizer.decode(sampled.tolist()) == tokenizer.decode(ids)


def bpe_dropout(pieces: list[str], merges: list[tuple[str, str]], p: Fraction) -> dict[tuple[str, ...], Fraction]:
    """Algorithm 1 of Provilkov et al. 2020 with all of its outcomes: of the possible merges each is removed with
    probability p, the one with the highest priority is applied, until none is left."""
    possible = [
        (merges.index((left, right)), i) for i, (left, right) in enumerate(pairwise(pieces)) if (left, right) in merges
    ]
    outcomes: Counter[tuple[str, ...]] = Counter()
    for removed in range(2 ** len(possible)):
        left = [merge for n, merge in enumerate(possible) if not removed >> n & 1]
        probability = p ** (len(possible) - len(left)) * (1 - p) ** len(left)
        if not left:
            outcomes[tuple(pieces)] += probability
            continue
        _, i = min(left)
        merged = [*pieces[:i], pieces[i] + pieces[i + 1], *pieces[i + 2 :]]
        for outcome, share in bpe_dropout(merged, merges, p).items():
            outcomes[outcome] += probability * share
    return outcomes


def unigram(word: str, scores: dict[str, float]) -> dict[tuple[str, ...], float]:
    """All segmentations of a word with their log-probabilities (Kudo 2018, equation 1)."""
    if not word:
        return {(): 0.0}
    return {
        (word[:end], *rest): scores[word[:end]] + log_probability
        for end in range(1, len(word) + 1)
        if word[:end] in scores
        for rest, log_probability in unigram(word[end:], scores).items()
    }


MANY_WAYS = ("▁", *"hundab", "▁h", "hu", "un", "nd", "und", "▁hun", "▁hund", "ab", "ba", "▁ab", "bab", "aba")


@pytest.mark.parametrize("word", ["hund", "abab"])
@pytest.mark.parametrize("units", UNITS)
def test_segmentations_have_the_probabilities_of_the_papers(units, word):
    config = TextConfig(units=units, vocabulary=380)
    tokenizer = Tokenizer.train(LINES * 3, config)
    if units == "unigram":
        scores = tuple(-1.5 - number % 5 for number in range(len(MANY_WAYS)))
        tokenizer = Tokenizer(config, Vocabulary((*SPECIAL, *BYTES, *MANY_WAYS), (), scores))
    vocabulary = tokenizer.vocabulary
    if units == "bpe":
        sampler = text_sampler(tokenizer, 0.3, None)
        outcomes = bpe_dropout(list("▁" + word), list(vocabulary.merges), Fraction(3, 10))
        expected = {pieces: float(probability) for pieces, probability in outcomes.items()}
    else:
        sampler = text_sampler(tokenizer, 0.0, 0.2)
        scores = dict(zip(tokenizer.pieces[-len(vocabulary.scores) :], vocabulary.scores, strict=True))
        powers = {pieces: math.exp(0.2 * score) for pieces, score in unigram("▁" + word, scores).items()}  # equation 8
        expected = {pieces: power / sum(powers.values()) for pieces, power in powers.items()}
    assert sum(expected.values()) == pytest.approx(1) and len(expected) >= 3
    ids, draw, trials = np.array(tokenizer.ids([word])[0]), Random(5).random, 8000
    found = Counter(
        tuple(tokenizer.pieces[number] for number in sampler.sample(ids, draw).tolist()) for _ in range(trials)
    )
    assert found.keys() <= expected.keys()
    for pieces, probability in expected.items():
        deviation = math.sqrt(trials * probability * (1 - probability))
        assert abs(found[pieces] - trials * probability) <= 5 * deviation + 1, pieces


# In training


def split_of(folder: Path, tokenizer: Tokenizer, lines: list[str]) -> PreparedSplit:
    """A split whose target is the source in reverse order of lines."""
    ids = tokenizer.ids(lines)
    tokens = {}
    for field, rows in (("source", ids), ("target", ids[::-1])):
        np.save(folder / ids_file("train", field), np.concatenate([np.array(row, np.uint16) for row in rows]))
        np.save(folder / ends_file("train", field), np.cumsum([len(row) for row in rows]))
        tokens[field] = sum(map(len, rows))
    record = SplitRecord(lines=len(ids), rows=len(ids), tokens=tokens, empty=Skipped(), long=Skipped())
    return PreparedSplit(folder, "train", record)


def batches(
    split: PreparedSplit, tokenizer: Tokenizer, epoch: int, start: int = 0, rank: int = 0, world: int = 1, seed: int = 3
) -> list[tuple[int, Batch]]:
    """The batches of an epoch, with samplers that have read nothing yet."""
    samplers = {"source": random_sampler(tokenizer), "target": random_sampler(tokenizer)}
    sampled = SampledSplit(split, samplers, 50, seed, epoch)
    plan = plan_epoch(split, ["source", "target"], tokens=60, seed=seed, epoch=epoch)
    with BatchLoader(sampled, plan, ["source"], rank, world, start) as loader:
        return [(update, batch) for update, (batch,) in loader]


def same(one: Batch, other: Batch) -> bool:
    return torch.equal(one.text("source").ids_BT, other.text("source").ids_BT) and torch.equal(
        one.target_BL, other.target_BL
    )


def test_epochs_differ_and_a_resumed_epoch_has_the_same_batches(tokenizer, tmp_path):
    split = split_of(tmp_path, tokenizer, [*GERMAN, *LINES] * 4)
    epochs = [batches(split, tokenizer, epoch) for epoch in range(3)]
    middle = len(epochs[1]) // 2
    resumed = batches(split, tokenizer, 1, middle)
    assert [update for update, _ in resumed] == list(range(middle, len(epochs[1])))
    assert all(same(one, other) for (_, one), (_, other) in zip(epochs[1][middle:], resumed, strict=True))
    assert len({tuple(text_of(split, tokenizer, epoch)) for epoch in range(3)}) == 3
    assert tuple(text_of(split, tokenizer, 1)) != tuple(text_of(split, tokenizer, 1, seed=4))


def text_of(split: PreparedSplit, tokenizer: Tokenizer, epoch: int, seed: int = 3) -> list[int]:
    sampled = SampledSplit(split, {"source": random_sampler(tokenizer)}, 50, seed, epoch)
    return sampled.concatenated_ids("source", np.arange(split.rows)).tolist()


def test_batches_have_the_rows_of_the_plan_whoever_reads_them(tokenizer, tmp_path):
    split = split_of(tmp_path, tokenizer, [*GERMAN, *LINES] * 4)
    plan = plan_epoch(split, ["source", "target"], tokens=60, seed=3, epoch=1)
    alone = dict(batches(split, tokenizer, 1))
    shares = [dict(batches(split, tokenizer, 1, rank=rank, world=2)) for rank in range(2)]
    for update, batch in alone.items():
        (rows,) = plan.rows(update)
        assert batch.rows == len(rows)
        for rank, share in enumerate(shares):
            own = share[update].text("source").ids_BT
            assert torch.equal(own, batch.text("source").ids_BT[rank::2])
            assert torch.equal(share[update].target_BL, batch.target_BL[rank::2])


def test_a_segmentation_over_the_length_limit_is_discarded(tokenizer, tmp_path):
    split = split_of(tmp_path, tokenizer, GERMAN)
    rows = np.arange(split.rows)
    limit = int(split.row_lengths("source", rows).max())
    texts = {"source": random_sampler(tokenizer)}
    lengths = np.stack([SampledSplit(split, texts, limit, 1, epoch).row_lengths("source", rows) for epoch in range(20)])
    free = np.stack([SampledSplit(split, texts, 999, 1, epoch).row_lengths("source", rows) for epoch in range(20)])
    assert free.max() > limit >= lengths.max()
    assert (lengths == np.where(free > limit, split.row_lengths("source", rows), free)).all()


def word_of_pieces(tokenizer: Tokenizer, ids: list[int]) -> list[int]:
    """The word, from 0, that each piece belongs to, of text with spaces between all words."""
    return (np.cumsum([tokenizer.pieces[number].startswith("▁") for number in ids]) - 1).tolist()


@pytest.mark.parametrize("sampled", [{"source"}, {"target"}, {"source", "target"}])
def test_a_guide_links_the_pieces_of_linked_words(tokenizer, tmp_path, sampled):
    split = split_of(tmp_path, tokenizer, ["der hund läuft schnell", "die katzen 漢字 schlafen", "zwei männer ab"])
    words = [{(0, 1), (2, 0)}, set(), {(1, 1), (1, 2), (2, 2)}]  # (source word, target word) of each row

    def linked(texts: PreparedSplit | SampledSplit, row: int) -> list[tuple[int, int]]:
        source, target = (
            word_of_pieces(tokenizer, texts.concatenated_ids(field, np.array([row])).tolist())
            for field in ("source", "target")
        )
        return [(t, s) for t, j in enumerate(target) for s, i in enumerate(source) if (i, j) in words[row]]

    prepared = RowArrays.of(np.array(linked(split, row), np.uint16).reshape(-1, 2) for row in range(3))
    for epoch in range(10):
        random = SampledSplit(split, dict.fromkeys(sampled, random_sampler(tokenizer)), 50, 1, epoch)
        links = random.links(prepared, "source", np.array([2, 0, 1]))
        for place, row in enumerate([2, 0, 1]):
            assert list(map(tuple, links.row(place).tolist())) == linked(random, row)


@pytest.mark.parametrize("units", slow_but(["unigram"], UNITS))
def test_a_stopped_training_resumes_to_the_same_weights(tmp_path, units):
    key = "subword_dropout=0.2" if units == "bpe" else "subword_sampling=0.2"
    texts = [f"{side}.{setting}" for side in ("sources.source", "target") for setting in (f"units={units}", key)]
    settings = [
        "training.epochs=3",
        "training.guide=hmm",
        "target.vocabulary=300",
        "sources.source.vocabulary=300",
        *texts,
    ]
    whole = train(toy_job(tmp_path, settings=settings))
    stopped = train(toy_job(tmp_path, "stopped", settings=settings), StopAfterUpdates(whole.updates // 2))
    assert stopped.signal == signal.SIGTERM and stopped.updates == whole.updates // 2
    assert train(toy_job(tmp_path, "stopped", resume=True, settings=settings)).weights_sha256 == whole.weights_sha256


RISK = [
    "training.objective=risk",
    "training.score=bleu",
    "training.init_from=model",
    "training.divide_by=null",
    "training.label_smoothing=0",
]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["target.units=words", "target.subword_dropout=0.1"], "subword_dropout: has no effect with units: words"),
        (["target.subword_sampling=0.1"], "subword_sampling: has no effect with units: bpe"),
        (["target.subword_dropout=0.1", *RISK], "the reference would be random"),
        (["sources.source.subword_dropout=0.1", "target.operations_on=source"], "those of source are random"),
        (["target.subword_dropout=1"], "less than 1"),
    ],
)
def test_impossible_settings_are_refused(changes, message):
    with pytest.raises(RecipeError, match=message):
        load_recipe("rnnsearch", changes)


def test_a_joint_vocabulary_may_be_sampled_on_one_side():
    recipe = load_recipe("rnnsearch", ["joint_vocabulary=true", "target.subword_dropout=0.1"])
    assert recipe.target.sampled and not recipe.texts["source"].sampled
