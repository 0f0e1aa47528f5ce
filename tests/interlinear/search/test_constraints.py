"""Constrained search: where constraints begin, what stands beside them, and how they share a beam (that outputs contain
them, and which output is found: test_prefix.py)."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from interlinear.batch import collate
from interlinear.search import Constraint, SearchOptions, SearchRequest, SlotTable
from interlinear.search.processors.beam_allocation import bank_order
from interlinear.search.processors.constraints import DUE, ON_SOURCE, Constraints
from interlinear.search.processors.processor import JOINED, WORD
from interlinear.text import END
from tests.interlinear.search.slot_table import OPTIONS, PHRASE, SENTENCE, VOCABULARY, Waiting, check_written, run
from tests.interlinear.systems import model_of


def test_a_table_has_constraints_only_while_a_sentence_has_some() -> None:
    table, options = SlotTable(model_of("rnnsearch"), 3), SearchOptions(beam=3)
    table.admit(collate({"source": [[5, 6]]}), [SearchRequest("plain", options, 20)])
    assert table.rows is not None and table.rows.processors == ()
    constraint = Constraint((7, 8, 4))
    table.admit(collate({"source": [[7]]}), [SearchRequest("own", options, 20, constraints=(constraint,) * 3)])
    (constraints,) = table.rows.processors
    assert isinstance(constraints, Constraints) and constraints.column_NC.shape == (2, 16)
    table.cancel({"own"})
    assert table.rows is not None and table.rows.processors == ()


@pytest.mark.parametrize("system", ["rnnsearch", "luong", "word_attention"])
@settings(max_examples=10)
@given(ids=SENTENCE, options=OPTIONS, phrase=PHRASE, start=st.integers(0, 8))
def test_a_constraint_begins_where_attention_is_on_its_source_words_or_at_the_end(
    system: str, ids: list[int], options: SearchOptions, phrase: tuple[int, ...], start: int
) -> None:
    model, start = model_of(system), min(start, len(ids) - 1)
    constraint = Constraint(phrase, (start, start + 1))
    one = Waiting(ids, options, 0, (constraint,))
    (found,) = run(SlotTable(model, 6), [one], with_attention=True)
    check_written(found, [constraint])
    assert found.attention_weights is not None
    memory = model.encode(collate({"source": [ids]}))
    for k, hypothesis in enumerate(found.hypotheses):
        first = hypothesis.constraints.index(0)
        weights_L = found.attention_weights.weights["source", "attention"][0, k, :first, start]
        assert (weights_L < DUE).all(), "another word was written where the constraint was due"
        weight = found.attention_weights.weights["source", "attention"][0, k, first, start]
        readouts, _ = model.unroll(memory, torch.tensor([[[*hypothesis.ids, END]]]))
        log_V = model.log_probabilities(readouts)[0, 0, first]
        log_V[[0, 2]] = log_V[constraint.ids[0]] = -torch.inf
        would_end = int(log_V.argmax()) == END
        room = one.request(0).max_length - first
        assert weight >= ON_SOURCE - 1e-9 or would_end or room == len(phrase)


def test_banks_share_a_beam_in_turns() -> None:
    """Post and Vilar 2018, section 3: the best of each bank, then the second best; the share of an empty bank goes to
    the others."""
    score = torch.tensor([[-1.0, -2.0, -3.0, -4.0, -5.0, -torch.inf, -7.0]])
    bank = torch.tensor([[0, 0, 0, 2, 2, 2, 5]])
    order = bank_order(score, bank)
    assert order[0].argsort().tolist()[:6] == [6, 3, 0, 4, 1, 2]
    assert order[0, 5] == order.max()


def test_a_word_that_would_lengthen_a_constraint_does_not_follow_it() -> None:
    """Token 6 continues the word before it: it stands behind a constraint only where it is one's own."""
    for ids in ([5, 6], [7, 4, 4], [8]):
        options = SearchOptions(beam=3, n_best=3, max_length=6)
        table = SlotTable(model_of("rnnsearch"), 3, kind_V=torch.where(torch.arange(VOCABULARY) == 6, JOINED, WORD))
        (result,) = run(table, [(ids, options, 0, (Constraint((7,)), Constraint((5, 6))))])
        for h in result.hypotheses:
            behind = [(a, b, word) for a, b, word in zip(h.constraints, h.constraints[1:], h.ids[1:], strict=False)]
            assert not any(a is not None and b is None and word == 6 for a, b, word in behind)


def test_a_constraint_is_not_said_again_directly_or_while_attention_is_on_its_words() -> None:
    for ids in itertools.product(range(4, 9), repeat=2):
        options = SearchOptions(beam=4, n_best=4, max_length=8, min_length=6)
        (result,) = run(SlotTable(model_of("rnnsearch"), 4), [([*ids], options, 0, (Constraint((7,), (0, 3)),))])
        for hypothesis in result.hypotheses:  # attention is nowhere else: the source and its end symbol
            assert hypothesis.ids.count(7) == 1
