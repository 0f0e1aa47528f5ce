"""Prefix-constrained search: outputs begin with their prefix, what follows is the best there is, and with alternatives
they differ in the first word after it."""

import copy
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from interlinear.batch import collate
from interlinear.losses.training_loss import training_loss
from interlinear.models.ensemble import Ensemble
from interlinear.models.protocol import EncoderDecoder
from interlinear.search import Constraint, SearchOptions, SearchRequest, SlotTable, TargetPrefix
from interlinear.search.captured import CapturedStep
from interlinear.search.compiled import CompiledStep
from interlinear.search.processors.prefix import Prefixes
from interlinear.search.processors.processor import JOINED, WORD
from interlinear.search.step import SearchStep, search_step
from tests.interlinear.models.test_ensemble import MIXED
from tests.interlinear.search.slot_table import (
    CONSTRAINTS,
    OPTIONS,
    PREFIX,
    SENTENCE,
    VOCABULARY,
    Transfers,
    Waiting,
    check_begun,
    check_written,
    contains,
    run,
    scores_of,
    settled,
    steps,
)
from tests.interlinear.search.test_candidates import shortlist_of
from tests.interlinear.search.test_captured import Recomputed
from tests.interlinear.search.test_compiled import CAPTURE
from tests.interlinear.systems import every_system, model_of
from tests.parameters import slow_but

FORCED = st.tuples(CONSTRAINTS, st.none() | PREFIX)
ROW = st.tuples(SENTENCE, OPTIONS, st.integers(0, 6), CONSTRAINTS, st.none() | PREFIX)
WAITING = st.lists(ROW, min_size=2, max_size=5)
PHRASES = ([(4,)], [(6, 5)], [(5, 5)], [(4,), (6,)], [(6,), (4, 6)], [(4, 4, 5)])
PREFIXES = ((), (4,), (6, 5), (5, 1, 6))


@pytest.mark.parametrize(
    "system", slow_but(["contextual_gates", "uam"], ["rnnsearch", "contextual_gates", "luong", "uam"])
)
@pytest.mark.parametrize("penalty", ["none", "average", 0.6])
@pytest.mark.parametrize(
    ("ids", "phrases", "n_best"),
    [
        *((None, phrases, 1) for phrases in PHRASES),
        *itertools.product(PREFIXES, ([], [(4, 4)]), (1, 4)),
    ],
)
def test_a_wide_beam_finds_the_best_output_of_each_first_word(
    system: str, penalty: str | float, ids: tuple[int, ...] | None, phrases: list[tuple[int, ...]], n_best: int
) -> None:
    """With the prefix, if there is one, and the constraints, of all outputs up to the longest."""
    small, source = model_of(system, vocabulary=7), [4, 6, 5, 4]
    begun = list(ids or ())
    longest, size = len(begun) + (3 if ids is None else 2 if phrases else 1), len(begun)
    ends = [list(end) for n in range(longest - size + 1) for end in itertools.product([1, 4, 5, 6], repeat=n)]
    outputs = [[*begun, *end] for end in ends if contains(end, phrases)]
    scores = scores_of(small, source, outputs, penalty)
    best: dict[tuple[int, ...], int] = {}
    for row in sorted(range(len(outputs)), key=scores.__getitem__, reverse=True):
        best.setdefault(tuple(outputs[row][size : size + 1]) if n_best > 1 else (), row)
    options = SearchOptions(beam=64, length_penalty=penalty, max_length=longest, n_best=n_best)
    prefix = None if ids is None else TargetPrefix(ids, alternatives=n_best > 1)
    constraints = tuple(Constraint(phrase) for phrase in phrases)
    table = SlotTable(small, 64)
    table.admit(collate({"source": [source]}), [SearchRequest(0, options, longest, False, constraints, prefix)])
    while not (found := table.pop_finished()):
        table.step()
    (result,) = found
    check_begun(result, prefix)
    check_written(result, constraints)
    expected = list(best.values())
    if len(expected) <= n_best:  # else which words begin a branch is decided by their probability
        assert [h.ids for h in result.hypotheses] == [outputs[row] for row in expected]
    for hypothesis in result.hypotheses:
        row = best[tuple(hypothesis.ids[size : size + 1]) if n_best > 1 else ()]
        assert hypothesis.ids == outputs[row] and hypothesis.score == pytest.approx(scores[row])


@every_system
@pytest.mark.parametrize("watch", [pytest.param(1, marks=pytest.mark.slow), 4])
@settings(max_examples=6)
@given(waiting=WAITING)
def test_outputs_have_their_prefix_and_constraints_whatever_else_is_in_the_table(
    system: str, watch: int, waiting: list[tuple]
) -> None:
    """Of several lengths, beside sentences without any, admitted at any step, with any beam, greedy search too."""
    model = model_of(system)
    together = run(SlotTable(model, 6, watch), waiting, with_attention=True)
    for one, found in zip(itertools.starmap(Waiting, waiting), together, strict=True):
        check_begun(found, one.request(0).prefix)
        check_written(found, one.constraints)
        (alone,) = run(SlotTable(model, one.options.beam), [one._replace(step=0)], with_attention=True)
        ours, theirs = settled(found, alone, one.constraints)
        assert [h.ids for h in ours] == [h.ids for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-9)
        rescored = -training_loss(model, collate({"source": [one.ids]}, [found.hypotheses[0].ids])).nats.item()
        assert found.hypotheses[0].log_probability == pytest.approx(rescored, abs=1e-9)
        assert found.token_log_probabilities is not None
        assert len(found.token_log_probabilities[0]) == len(found.hypotheses[0].ids), "forced words have one too"


@settings(max_examples=8)
@given(waiting=WAITING)
def test_an_ensemble_continues_prefixes_and_writes_constraints(waiting: list[tuple]) -> None:
    ensemble = Ensemble([model_of(system) for system in MIXED]).eval()
    for one, found in zip(itertools.starmap(Waiting, waiting), run(SlotTable(ensemble, 6), waiting), strict=True):
        check_begun(found, one.request(0).prefix)
        check_written(found, one.constraints)


@pytest.mark.parametrize("prefix", [None, TargetPrefix((38, 11, 38))])
@settings(max_examples=8)
@given(waiting=WAITING, words=st.lists(st.integers(4, 39), max_size=8))
def test_prefixes_and_constraints_outside_a_shortlist_are_written(
    prefix: TargetPrefix | None, waiting: list[tuple], words: list[int]
) -> None:
    model, shortlist = model_of("rnnsearch", 40), shortlist_of(words, [])
    outside = [
        one._replace(constraints=(*one.constraints, Constraint((37, 12))), prefix=prefix)
        for one in itertools.starmap(Waiting, waiting)
    ]
    for one, found in zip(outside, run(SlotTable(model, 6), outside, shortlist=shortlist), strict=True):
        check_begun(found, prefix)
        check_written(found, one.constraints)
        assert all(set(h.ids) <= {*words, *one.forced, 1} for h in found.hypotheses)


def test_the_share_of_a_beam_is_the_same_for_every_first_word() -> None:
    """Two hypotheses for each of three: not the best six, which would all begin with the best word."""
    model, options = model_of("rnnsearch"), SearchOptions(beam=6, n_best=3, max_length=8, min_length=6)
    for ids in itertools.product(range(4, 9), repeat=2):
        table = SlotTable(model, 6)
        prefix = TargetPrefix((7,), alternatives=True)
        table.admit(collate({"source": [[*ids]]}), [SearchRequest(0, options, 8, prefix=prefix)])
        for _ in range(4):
            table.step()
        assert table.rows is not None
        (prefixes,) = (one for one in table.rows.processors if isinstance(one, Prefixes))
        assert sorted(prefixes.branch_NK[0].tolist()) == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("system", ["rnnsearch", "luong", "coverage_neural"])
@settings(max_examples=15)
@given(plain=st.tuples(SENTENCE, OPTIONS), others=st.lists(st.tuples(SENTENCE, OPTIONS, FORCED), min_size=1))
def test_a_sentence_without_a_prefix_or_constraints_is_searched_as_before_to_the_last_bit(
    system: str, plain: tuple[list[int], SearchOptions], others: list[tuple[list[int], SearchOptions, tuple]]
) -> None:
    tables = [SlotTable(model_of(system), 6, sync_interval=100) for _ in range(2)]
    batch = collate({"source": [plain[0], *(ids for ids, _, _ in others)]})
    for table, forced in zip(tables, (True, False), strict=True):
        rows = [Waiting(*plain), *(Waiting(ids, one, 0, *(own if forced else ())) for ids, one, own in others)]
        table.admit(batch, [one.request(key, with_attention=True) for key, one in enumerate(rows)])
    for _ in range(12):
        states = []
        for table in tables:
            table.step()
            assert table.rows is not None
            states.append(table.rows)
        for name, value in vars(states[0]).items():
            if isinstance(value, torch.Tensor):
                first, other = (torch.atleast_1d(tensor[0]) for tensor in (value, getattr(states[1], name)))
                width = min(first.shape[-1], other.shape[-1])  # the others may have room for longer outputs
                assert first[..., :width].equal(other[..., :width]), name


@pytest.mark.parametrize("new_word", [True, False])
def test_a_token_that_would_lengthen_the_last_word_does_not_follow_a_prefix(new_word: bool) -> None:
    """Unless its last word may go on, as behind a hyphen."""
    joined = torch.arange(VOCABULARY) >= 6  # all but two continue the word before them
    followed = set()
    for ids in itertools.product(range(4, 9), repeat=2):
        table = SlotTable(model_of("rnnsearch"), 4, kind_V=torch.where(joined, JOINED, WORD))
        options = SearchOptions(beam=4, n_best=4, max_length=5)
        (result,) = run(table, [([*ids], options, 0, (), TargetPrefix((7,), new_word, True))])
        followed |= {token for h in result.hypotheses for token in h.ids[1:2]}
    assert bool({int(token) for token in followed} & set(range(6, VOCABULARY))) == (not new_word)


CONSTRAINED = [{"constraints": (Constraint((7, 8), (0, 2)), Constraint((5,)))}, {}]
PREFIXED = [
    {"prefix": TargetPrefix((7, 8), alternatives=True)},
    {},
    {"constraints": (Constraint((5,), (0, 1)),), "prefix": TargetPrefix((4,))},
]
each_table = pytest.mark.parametrize("rows", [CONSTRAINED, PREFIXED], ids=["constraints", "prefixes"])


def table_of(rows: list[dict], step: SearchStep = search_step, device: str = "cpu") -> SlotTable:
    """A table with sentences that have prefixes and constraints, and a sentence with neither."""
    model: EncoderDecoder = model_of("rnnsearch")
    if device != "cpu":
        model = copy.deepcopy(model).to(device)
    table = SlotTable(
        model, 3, sync_interval=8, search_step=step, kind_V=torch.where(torch.arange(VOCABULARY) == 6, JOINED, WORD)
    )
    options = SearchOptions(beam=3, n_best=2, max_length=6)
    sources = [[5, 6], [7], [8, 8, 4]][: len(rows)]
    table.admit(collate({"source": sources}), [SearchRequest(key, options, 6, **row) for key, row in enumerate(rows)])
    return table


@each_table
def test_a_step_with_prefixes_and_constraints_never_synchronises_with_the_device(rows: list[dict]) -> None:
    table = table_of(rows)
    with Transfers() as transfers:
        for _ in range(4):
            table.step()
            assert table.pop_finished() == []
    assert transfers.seen == []


@each_table
def test_a_step_with_prefixes_and_constraints_needs_no_host(rows: list[dict]) -> None:
    """On the meta device, which raises where the host would read a value."""
    table = table_of(rows, CapturedStep(capture=Recomputed()), "meta")
    for _ in range(4):
        table.step()


@each_table
def test_a_step_with_prefixes_and_constraints_is_captured_and_not_compiled(rows: list[dict]) -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    expected = list(steps(table_of(rows)))
    assert list(steps(table_of(rows, CompiledStep(CAPTURE)))) == expected
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 0
    capture = Recomputed()
    assert list(steps(table_of(rows, CapturedStep(capture=capture)))) == expected
    assert capture.replays > 0
