"""Prefix-constrained search: outputs begin with their prefix, what follows is the best there is, and with alternatives
they differ in the first word after it."""

import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.batch import collate
from seq2seq.model.ensemble import Ensemble, Predictor
from seq2seq.search import Constraint, SearchOptions, SearchRequest, SearchResult, SlotTable, TargetPrefix
from seq2seq.search.captured import CapturedStep
from seq2seq.search.step import search_step
from seq2seq.shortlist import Shortlist
from seq2seq.text import END
from tests.parameters import slow_but
from tests.seq2seq.model.test_ensemble import MIXED
from tests.seq2seq.search.test_candidates import shortlist_of
from tests.seq2seq.search.test_captured import Recomputed
from tests.seq2seq.search.test_constraints import CONSTRAINTS, check_written, contains, settled, steps
from tests.seq2seq.search.test_search import OPTIONS, SENTENCE, VOCABULARY, Transfers
from tests.seq2seq.systems import every_system, model_of

IDS = st.lists(st.integers(4, VOCABULARY - 1) | st.just(1), max_size=4).map(tuple)
PREFIX = st.builds(TargetPrefix, IDS, alternatives=st.booleans())
# Ids, options, step of admission, prefix, constraints.
Waiting = tuple[list[int], SearchOptions, int, TargetPrefix | None, tuple[Constraint, ...]]
WAITING = st.lists(
    st.tuples(SENTENCE, OPTIONS, st.integers(0, 6), st.none() | PREFIX, CONSTRAINTS), min_size=2, max_size=5
)


def request(key: int, one: Waiting) -> SearchRequest:
    ids, options, _, prefix, constraints = one
    tokens = sum(len(constraint.ids) for constraint in constraints) + (len(prefix.ids) if prefix else 0)
    if prefix is not None:
        prefix = replace(prefix, alternatives=prefix.alternatives and options.n_best > 1)
    return SearchRequest(key, options, options.output_limit(len(ids)) + tokens, True, constraints, prefix)


def run(table: SlotTable, waiting: Sequence[Waiting], shortlist: Shortlist | None = None) -> list[SearchResult]:
    """Search sentences, each admitted at its own step."""
    done: list[SearchResult] = []
    clock = 0
    while len(done) < len(waiting):
        now = [(key, one) for key, one in enumerate(waiting) if one[2] == clock]
        if now:
            batch = collate({"source": [one[0] for _, one in now]})
            if shortlist:
                required = [[*(one[3].ids if one[3] else ()), *(i for c in one[4] for i in c.ids)] for _, one in now]
                batch = replace(
                    batch, candidates=shortlist.candidates([{"source": one[0]} for _, one in now], required)
                )
            table.admit(batch, [request(key, one) for key, one in now])
        table.step()
        done += table.pop_finished()
        clock += 1
    return sorted(done, key=lambda one: int(str(one.key)))


def check_begun(result: SearchResult, prefix: TargetPrefix | None) -> None:
    """Every output has the prefix, and with alternatives another first word."""
    assert result.hypotheses
    if prefix is not None:
        size = len(prefix.ids)
        assert all(tuple(h.ids[:size]) == prefix.ids for h in result.hypotheses)
        if prefix.alternatives:
            firsts = [tuple(h.ids[size : size + 1]) for h in result.hypotheses]
            assert len(set(firsts)) == len(firsts)


SOME_SYSTEMS = ["rnnsearch", "contextual_gates", "luong", "uam"]


@pytest.mark.parametrize("system", slow_but(["contextual_gates", "uam"], SOME_SYSTEMS))
@pytest.mark.parametrize("penalty", ["none", "average", 0.6])
@pytest.mark.parametrize("ids", [(), (4,), (6, 5), (5, 1, 6)])
@pytest.mark.parametrize("phrases", [[], [(4, 4)]])
@pytest.mark.parametrize("n_best", [1, 4])
def test_a_wide_beam_finds_the_best_output_of_each_first_word(
    system: str, penalty: str | float, ids: tuple[int, ...], phrases: list[tuple[int, ...]], n_best: int
) -> None:
    """With the prefix and the constraints, of all outputs up to the longest."""
    small = model_of(system, vocabulary=7)
    longest, source, size = len(ids) + (2 if phrases else 1), [4, 6, 5, 4], len(ids)
    ends = [list(end) for n in range(longest - size + 1) for end in itertools.product([1, 4, 5, 6], repeat=n)]
    outputs = [[*ids, *end] for end in ends if contains(end, phrases)]
    batch = collate({"source": [source] * len(outputs)}, outputs)
    readouts, _ = small.teacher_forced(small.encode(batch), batch.target_BL[:, None])
    log_p = small.log_probabilities(readouts)[:, 0].detach()

    def score(row: int) -> float:
        output = [*outputs[row], END]
        total = sum(float(log_p[row, i, word]) for i, word in enumerate(output))
        return total / {"none": 1.0, "average": len(output)}.get(str(penalty), ((5 + len(output)) / 6) ** 0.6)

    best: dict[tuple[int, ...], int] = {}
    for row in sorted(range(len(outputs)), key=score, reverse=True):
        best.setdefault(tuple(outputs[row][size : size + 1]) if n_best > 1 else (), row)
    options = SearchOptions(beam=64, length_penalty=penalty, max_length=longest, n_best=n_best)
    table = SlotTable(small, 64)
    prefix = TargetPrefix(ids, alternatives=n_best > 1)
    constraints = tuple(Constraint(phrase) for phrase in phrases)
    table.admit(collate({"source": [source]}), [SearchRequest(0, options, longest, False, constraints, prefix)])
    found: list[SearchResult] = []
    while not found:
        table.step()
        found = table.pop_finished()
    (result,) = found
    check_begun(result, prefix)
    expected = list(best.values())
    if len(expected) <= n_best:  # else which words begin a branch is decided by their probability
        assert [h.ids for h in result.hypotheses] == [outputs[row] for row in expected]
    for hypothesis in result.hypotheses:
        row = best[tuple(hypothesis.ids[size : size + 1]) if n_best > 1 else ()]
        assert hypothesis.ids == outputs[row] and hypothesis.score == pytest.approx(score(row))


@every_system
@pytest.mark.parametrize("watch", [pytest.param(1, marks=pytest.mark.slow), 4])
@settings(max_examples=4)
@given(waiting=WAITING)
def test_outputs_begin_with_their_prefix_whatever_else_is_in_the_table(
    system: str, watch: int, waiting: list[Waiting]
) -> None:
    """Of several lengths, beside sentences without any and with constraints, admitted at any step, with any beam."""
    model = model_of(system)
    together = run(SlotTable(model, 6, watch), waiting)
    for one, found in zip(waiting, together, strict=True):
        ids, options, _, prefix, constraints = one
        check_begun(found, request(0, one).prefix)
        check_written(found, constraints)
        (alone,) = run(SlotTable(model, options.beam), [(ids, options, 0, prefix, constraints)])
        ours, theirs = settled(found, alone, constraints)
        assert [h.ids for h in ours] == [h.ids for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-9)
        rescored = -model.loss(collate({"source": [ids]}, [found.hypotheses[0].ids])).nats.item()
        assert found.hypotheses[0].log_probability == pytest.approx(rescored, abs=1e-9)
        assert found.token_log_probabilities is not None
        assert len(found.token_log_probabilities[0]) == len(found.hypotheses[0].ids), "forced words have one too"


@settings(max_examples=8)
@given(waiting=WAITING)
def test_an_ensemble_continues_prefixes(waiting: list[Waiting]) -> None:
    ensemble = Ensemble([model_of(system) for system in MIXED]).eval()
    for one, found in zip(waiting, run(SlotTable(ensemble, 6), waiting), strict=True):
        check_begun(found, request(0, one).prefix)


@settings(max_examples=8)
@given(waiting=WAITING, words=st.lists(st.integers(4, 39), max_size=8))
def test_a_prefix_outside_a_shortlist_is_continued_with_its_words(waiting: list[Waiting], words: list[int]) -> None:
    model, shortlist = model_of("rnnsearch", 40), shortlist_of(words, [])
    outside = [(*one[:3], TargetPrefix((38, 11, 38)), ()) for one in waiting]
    for one, found in zip(outside, run(SlotTable(model, 6), outside, shortlist), strict=True):
        check_begun(found, one[3])
        assert all(set(h.ids) <= {*words, 38, 11, 1} for h in found.hypotheses)


def test_the_share_of_a_beam_is_the_same_for_every_first_word() -> None:
    """Two hypotheses for each of three: not the best six, which would all begin with the best word."""
    model, options = model_of("rnnsearch"), SearchOptions(beam=6, n_best=3, max_length=8, min_length=6)
    for ids in itertools.product(range(4, 9), repeat=2):
        table = SlotTable(model, 6)
        prefix = TargetPrefix((7,), alternatives=True)
        table.admit(collate({"source": [[*ids]]}), [SearchRequest(0, options, 8, prefix=prefix)])
        for _ in range(4):
            table.step()
        assert table.rows is not None and table.rows.constraints is not None
        assert table.rows.constraints.prefix is not None
        assert sorted(table.rows.constraints.prefix.branch_NK[0].tolist()) == [1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("system", ["rnnsearch", "luong", "coverage_neural"])
@settings(max_examples=10)
@given(plain=st.tuples(SENTENCE, OPTIONS), others=st.lists(st.tuples(SENTENCE, OPTIONS, PREFIX), min_size=1))
def test_a_sentence_without_a_prefix_is_searched_as_before_to_the_last_bit(
    system: str, plain: tuple[list[int], SearchOptions], others: list[tuple[list[int], SearchOptions, TargetPrefix]]
) -> None:
    tables = [SlotTable(model_of(system), 6, sync_interval=100) for _ in range(2)]
    batch = collate({"source": [plain[0], *(ids for ids, _, _ in others)]})
    for table, prefixed in zip(tables, (True, False), strict=True):
        rows: list[Waiting] = [(*plain, 0, None, ())]
        rows += [(ids, options, 0, own if prefixed else None, ()) for ids, options, own in others]
        table.admit(batch, [request(key, one) for key, one in enumerate(rows)])
    for _ in range(12):
        states = []
        for table in tables:
            table.step()
            assert table.rows is not None
            states.append(table.rows)
        for name, value in vars(states[0]).items():
            if isinstance(value, torch.Tensor):
                first, other = (torch.atleast_1d(tensor[0]) for tensor in (value, getattr(states[1], name)))
                width = min(first.shape[-1], other.shape[-1])  # prefixes may make room for longer outputs
                assert first[..., :width].equal(other[..., :width]), name


@pytest.mark.parametrize("new_word", [True, False])
def test_a_token_that_would_lengthen_the_last_word_does_not_follow_a_prefix(new_word: bool) -> None:
    """Unless its last word may go on, as behind a hyphen."""
    joined = torch.arange(VOCABULARY) >= 6  # all but two continue the word before them
    followed = set()
    for ids in itertools.product(range(4, 9), repeat=2):
        table = SlotTable(model_of("rnnsearch"), 4, joined_V=joined)
        options = SearchOptions(beam=4, n_best=4, max_length=5)
        (result,) = run(table, [([*ids], options, 0, TargetPrefix((7,), new_word, True), ())])
        followed |= {token for h in result.hypotheses for token in h.ids[1:2]}
    assert bool({int(token) for token in followed} & set(range(6, VOCABULARY))) == (not new_word)


def prefixed_table(step: Callable = search_step, device: str = "cpu") -> SlotTable:
    """A table with a prefix and alternatives, a prefix and a constraint, and a sentence with neither."""
    model: Predictor = model_of("rnnsearch")
    if device != "cpu":
        model = copy.deepcopy(model).to(device)
    table = SlotTable(model, 3, sync_interval=8, search_step=step, joined_V=torch.arange(VOCABULARY) == 6)
    options = SearchOptions(beam=3, n_best=2, max_length=6)
    requests = [
        SearchRequest(0, options, 6, prefix=TargetPrefix((7, 8), alternatives=True)),
        SearchRequest(1, options, 6),
        SearchRequest(2, options, 6, constraints=(Constraint((5,), (0, 1)),), prefix=TargetPrefix((4,))),
    ]
    table.admit(collate({"source": [[5, 6], [7], [8, 8, 4]]}), requests)
    return table


def test_a_step_with_prefixes_never_synchronises_with_the_device() -> None:
    table = prefixed_table()
    with Transfers() as transfers:
        for _ in range(4):
            table.step()
            assert table.pop_finished() == []
    assert transfers.seen == []


def test_a_step_with_prefixes_needs_no_host() -> None:
    """On the meta device, which raises where the host would read a value."""
    table = prefixed_table(CapturedStep(capture=Recomputed()), "meta")
    for _ in range(4):
        table.step()


def test_a_step_with_prefixes_is_captured() -> None:
    expected: list[Iterator[list[int]]] = list(steps(prefixed_table()))
    capture = Recomputed()
    assert list(steps(prefixed_table(CapturedStep(capture=capture)))) == expected
    assert capture.replays > 0
