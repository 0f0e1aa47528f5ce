"""The HMM aligner equals a sum over all alignments, and learns from pairs alone."""

import itertools
import math
import random

import numpy as np
import pytest
import torch

from interlinear.alignment import hmm, hmm_constants
from interlinear.alignment.hmm import Direction, Posterior, WordAligner, align_corpus
from interlinear.alignment.links import symmetrize
from interlinear.alignment.pair_batches import PADDING, PairCorpus, Vocabulary, WordPair, similarity

PAIRS: list[WordPair] = [
    ("das haus ist klein".split(), "the house is small".split()),
    ("das buch".split(), "the book".split()),
    ("ein haus".split(), "a house".split()),
    ("ein kleines buch".split(), "a small book".split()),
    ("haus".split(), "the house is a house".split()),
]


def corpus_of(pairs: list[WordPair]) -> tuple[PairCorpus, WordAligner]:
    """The pairs, with an aligner that has random counts for their cells."""
    source, target = Vocabulary(), Vocabulary()
    corpus = PairCorpus.of(pairs, source, target)
    counts = hmm.zero_counts(corpus, source, target)
    torch.manual_seed(3)
    for one in counts:
        one.cell_C += torch.rand_like(one.cell_C) * 3
        one.empty_V += 1 + torch.rand_like(one.empty_V)
        one.jump_D += torch.rand_like(one.jump_D)
        one.given_V += 40
    return corpus, WordAligner(source, target, corpus.keys_C, counts)


def enumerated(direction: Direction, link_JI: np.ndarray, empty_J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Posteriors of links and of the empty word, from the weight of every alignment of one pair (Vogel et al. 1996).

    A word j has a position i and is linked with it, or comes from the empty word, which keeps the position (Och and Ney
    2003).
    """
    targets, sources = link_JI.shape
    jump = {
        d: float(direction.jump_D[d + hmm_constants.FARTHEST])
        for d in range(-hmm_constants.FARTHEST, hmm_constants.FARTHEST + 1)
    }
    posterior_JI, posterior_J, total = np.zeros_like(link_JI), np.zeros(targets), 0.0
    states = [(i, linked) for i in range(sources) for linked in (True, False)]
    for path in itertools.product(states, repeat=targets):
        weight, before = 1.0, -1
        for j, (i, linked) in enumerate(path):
            if linked:
                move = jump[i - before] / sum(jump[k - before] for k in range(sources))
                near = math.exp(-hmm_constants.DIAGONAL * abs((i + 0.5) / sources - (j + 0.5) / targets))
                weight *= (1 - hmm_constants.EMPTY_WORD) * move * link_JI[j, i] * near
            else:
                stays = 1 / sources if before == -1 else float(i == before)
                weight *= hmm_constants.EMPTY_WORD * stays * empty_J[j]
            before = i
        total += weight
        for j, (i, linked) in enumerate(path):
            if linked:
                posterior_JI[j, i] += weight
            else:
                posterior_J[j] += weight
    return posterior_JI / total, posterior_J / total


@pytest.mark.parametrize("backward", [False, True])
def test_posteriors_are_a_sum_over_all_alignments(backward: bool):
    corpus, aligner = corpus_of(PAIRS)
    direction = aligner.directions(corpus)[backward]
    (batch,) = corpus.batches
    link_NJI, empty_NJ = (each.numpy().astype(np.float64) for each in direction.emissions(batch, None))
    found = direction.posterior(batch, None, hidden_markov=True)
    for row, n in enumerate(batch.pairs):
        source, target = map(len, PAIRS[n][::-1] if backward else PAIRS[n])
        links, empty = enumerated(direction, link_NJI[row, :target, :source], empty_NJ[row, :target])
        np.testing.assert_allclose(found.link_NJI[row, :target, :source], links, atol=1e-5)
        np.testing.assert_allclose(found.empty_NJ[row, :target], empty, atol=1e-5)
        assert found.link_NJI[row, target:].sum() == found.link_NJI[row, :, source:].sum() == 0


def test_expected_jumps_are_those_of_the_links():
    corpus, aligner = corpus_of([PAIRS[0]])
    direction = aligner.directions(corpus)[0]
    found = direction.posterior(corpus.batches[0], None, hidden_markov=True)
    assert found.jump_D is not None
    assert found.jump_D.sum().item() == pytest.approx(found.link_NJI.sum().item(), rel=1e-5)


def test_a_word_is_aligned_by_what_other_occurrences_say():
    """CVB0 (Asuncion et al. 2009): p(f | e) = (c - own + a_ef) / (C - own + A_e); own are the pair's counts."""
    corpus, aligner = corpus_of(PAIRS)
    direction = aligner.directions(corpus)[0]
    (batch,) = corpus.batches
    torch.manual_seed(5)
    own = Posterior(torch.rand(batch.cell_NJI.shape) * 0.1, torch.rand(batch.target_NJ.shape) * 0.01)
    link_NJI, empty_NJ = direction.emissions(batch, own)
    similar_C = similarity(corpus, aligner.source, aligner.target).double()
    prior_C = hmm_constants.PRIOR + hmm_constants.SIMILAR_PRIOR * similar_C
    given = corpus.source_C
    for row, j, i in itertools.product(*map(range, batch.cell_NJI.shape)):
        cell = int(batch.cell_NJI[row, j, i])
        if cell == 0:
            assert link_NJI[row, j, i] == 0
            continue
        word = given[cell]
        prior = (
            hmm_constants.PRIOR * len(aligner.target)
            + hmm_constants.SIMILAR_PRIOR * similar_C[1:][given[1:] == word].sum()
        )
        mine = own.link_NJI[row, j, i].double()
        p = (aligner.counts[0].cell_C[cell] + prior_C[cell] - mine) / (aligner.counts[0].given_V[word] + prior - mine)
        empty_V = aligner.counts[0].empty_V + hmm_constants.PRIOR
        none = own.empty_NJ[row, j].double()
        q = (empty_V[batch.target_NJ[row, j]] - none) / (empty_V.sum() - none)
        assert (link_NJI[row, j, i] / empty_NJ[row, j]).item() == pytest.approx((p / q).item(), rel=1e-3)


def test_words_that_are_written_alike_are_similar():
    source, target = Vocabulary(), Vocabulary()
    pair = ("parlament 1998 , nation haus".split(), "parliament 1998 , nationen hand".split())
    corpus = PairCorpus.of([pair], source, target)
    similar = {
        (list(source)[s], list(target)[t]): value
        for s, t, value in zip(
            corpus.source_C.tolist(), corpus.target_C.tolist(), similarity(corpus, source, target).tolist(), strict=True
        )
        if value
    }
    assert similar == {
        ("1998", "1998"): 1.0,
        (",", ","): 1.0,
        ("nation", "nationen"): pytest.approx(6 / 8),
        ("parlament", "parliament"): pytest.approx(4 / 10),
    }


WORDS = [f"{first}{second}" for first in "bdfgklm" for second in ("aro", "eti", "ulu", "ino")]


def dictionary_pairs(count: int, seed: int) -> tuple[list[WordPair], list[set[tuple[int, int]]]]:
    """Random pairs of a made-up language whose words are translated one by one, some swapped, with their links."""
    draw = random.Random(seed)
    pairs: list[WordPair] = []
    gold = []
    for _ in range(count):
        source = draw.choices(WORDS, k=draw.randint(3, 9))
        order = list(range(len(source)))
        if draw.random() < 0.5:
            k = draw.randrange(len(source) - 1)
            order[k], order[k + 1] = order[k + 1], order[k]
        pairs.append((source, ["x" + source[i][::-1] for i in order]))
        gold.append({(i, j) for j, i in enumerate(order)})
    return pairs, gold


def test_it_learns_a_dictionary_from_a_few_hundred_pairs():
    pairs, gold = dictionary_pairs(300, seed=1)
    passes: list[tuple[int, int]] = []
    links = align_corpus(pairs, lambda done, of: passes.append((done, of)))
    wrong = sum(len(set(found) ^ true) for found, true in zip(links, gold, strict=True))
    assert wrong <= 0.02 * sum(map(len, gold))
    assert passes == [(n + 1, 6) for n in range(6)]
    assert links == align_corpus(pairs)  # deterministic


def test_words_far_from_the_diagonal_are_aligned_where_many_pairs_say_so(monkeypatch):
    """A language that writes sentences backwards: the diagonal misleads, less so from many pairs on."""
    forward_order, _ = dictionary_pairs(40, seed=1)
    pairs: list[WordPair] = [(source, target[::-1]) for source, target in forward_order]

    def right() -> list[int]:
        """Right links of the pairs as they were learned, and aligned again with what was learned."""
        aligner, learned = WordAligner.learn(pairs)
        return [
            sum(
                target[j] == "x" + source[i][::-1]
                for (source, target), posteriors in zip(pairs, found, strict=True)
                if posteriors
                for i, j in posteriors.agreed()
            )
            for found in (learned, aligner.align(pairs))
        ]

    few = right()
    monkeypatch.setattr(hmm, "MANY_PAIRS", len(pairs))
    assert [many > 1.5 * before for many, before in zip(right(), few, strict=True)] == [True, True]


def test_pairs_that_are_left_out_of_learning_are_aligned(monkeypatch):
    pairs, gold = dictionary_pairs(400, seed=1)
    monkeypatch.setattr(hmm, "MAX_CELLS", sum(len(s) * len(t) for s, t in pairs) // 2)
    assert len(hmm.evenly_spaced(pairs)) == pytest.approx(200, abs=1)
    links = align_corpus(pairs)
    wrong = sum(len(set(found) ^ true) for found, true in zip(links, gold, strict=True))
    assert wrong <= 0.03 * sum(map(len, gold))


def test_pairs_are_aligned_in_parts_so_that_memory_is_bounded(monkeypatch):
    pairs, _ = dictionary_pairs(100, seed=1)
    aligner, _ = WordAligner.learn(pairs[:50])
    expected = [found.agreed() for found in aligner.align(pairs) if found]
    cells = [len(source) * len(target) for source, target in pairs]
    monkeypatch.setattr(hmm, "PART_CELLS", sum(cells) // 10)
    read: list[int] = []
    found = aligner.align(read.append(n) or pair for n, pair in enumerate(pairs))
    links, ahead = [], 0
    for n, posteriors in enumerate(found):
        links.append(posteriors.agreed())
        ahead = max(ahead, sum(cells[n : len(read)]))
    assert links == expected
    assert len(read) == 100 and ahead <= hmm.PART_CELLS + 2 * max(cells)


def test_a_pair_with_an_empty_side_has_no_links():
    pairs: list[WordPair] = [([], ["a"]), (["b"], []), *PAIRS, ([], [])]
    aligner, aligned = WordAligner.learn(pairs)
    assert [found is None for found in aligned] == [True, True, *[False] * len(PAIRS), True]
    assert list(aligner.align([([], ["a"])])) == [None]
    assert align_corpus([]) == []


def test_a_long_sentence_beside_a_short_one_gives_numbers():
    pairs: list[WordPair] = [(["a"], ["b"] * 300), (["a"] * 300, ["b"]), (["a"], ["b"])]
    for _, found in zip(pairs, WordAligner.learn(pairs)[1], strict=True):
        assert found is not None
        assert np.isfinite(found.forward_JI).all() and np.isfinite(found.backward_JI).all()
        assert found.forward_JI.sum(1).max() < 1.001 and found.backward_JI.sum(0).max() < 1.001


def test_padding_does_not_change_a_pair():
    corpus, aligner = corpus_of(PAIRS)
    (batch,) = corpus.batches
    assert (batch.source_NI == PADDING).any() and (batch.target_NJ == PADDING).any()
    together = aligner.align(PAIRS)
    for pair, found in zip(PAIRS, together, strict=True):
        (alone,) = aligner.align([pair])
        assert found is not None and alone is not None
        np.testing.assert_allclose(found.forward_JI, alone.forward_JI, atol=1e-5)
        np.testing.assert_allclose(found.backward_JI, alone.backward_JI, atol=1e-5)


def test_links_of_a_direction_are_its_best():
    posteriors = hmm.LinkPosteriors(
        np.array([[0.9, 0.05], [0.2, 0.2], [0.3, 0.6]]), np.array([[0.8, 0.0], [0.1, 0.3], [0.0, 0.6]])
    )
    assert posteriors.forward() == [(0, 0), (1, 2)]  # word 1 comes from the empty word
    assert posteriors.backward() == [(0, 0), (1, 2)]
    assert posteriors.agreed() == [(0, 0), (1, 2)] == symmetrize(posteriors.forward(), posteriors.backward(), "union")
