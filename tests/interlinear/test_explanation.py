"""Attention weights between subwords become weights between the displayed words."""

import pytest
import torch

from interlinear.explanation import mean_by_word, pool_to_words, sum_by_word

WORDS = [(0, 1), (1, 2), (3, 5)]  # of "你好 ab": every Chinese character is a word
PIECES = [(0, 2), (3, 4), (4, 5)]


def test_the_weight_of_a_piece_over_several_source_words_is_shared_by_their_characters():
    weights_LT = torch.tensor([[0.6, 0.1, 0.2, 0.1]])  # the last column is the end symbol's
    found = pool_to_words(weights_LT, PIECES, [(0, 1)], WORDS, [(0, 1)])
    assert found.tolist() == [pytest.approx([0.3, 0.3, 0.3])]
    assert sum_by_word(torch.tensor([2.0, 1.0, 0.5]), PIECES, WORDS) == pytest.approx([1.0, 1.0, 1.5])


def test_every_target_word_of_a_piece_gets_the_weights_of_the_piece():
    weights_LT = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
    found = pool_to_words(weights_LT, [(0, 1), (1, 2)], PIECES, [(0, 1), (1, 2)], WORDS)
    assert found[0].tolist() == found[1].tolist() == pytest.approx([0.9, 0.1])
    assert found[2].tolist() == pytest.approx([0.3, 0.7])
    assert mean_by_word(torch.tensor([0.9, 0.2, 0.4]), PIECES, WORDS) == pytest.approx([0.9, 0.9, 0.3])


def test_a_word_without_a_piece_has_zero_weights():
    assert pool_to_words(torch.tensor([[1.0]]), [(0, 2)], [(0, 1)], [(0, 2)], [(0, 1), (2, 3)]).tolist() == [
        [1.0],
        [0.0],
    ]
