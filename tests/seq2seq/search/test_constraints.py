"""Constrained search: outputs contain their constraints, the best one is found, and other sentences are as before."""

import copy
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seq2seq.batch import collate
from seq2seq.model.ensemble import Ensemble, Predictor
from seq2seq.search import Constraint, Hypothesis, SearchOptions, SearchRequest, SearchResult, SlotTable
from seq2seq.search.captured import CapturedStep
from seq2seq.search.compiled import CompiledStep
from seq2seq.search.constrained import DUE, ON_SOURCE, bank_order
from seq2seq.search.step import search_step
from seq2seq.shortlist import Shortlist
from seq2seq.text import END
from tests.parameters import slow_but
from tests.seq2seq.model.test_ensemble import MIXED
from tests.seq2seq.search.test_candidates import shortlist_of
from tests.seq2seq.search.test_captured import Recomputed
from tests.seq2seq.search.test_compiled import CAPTURE
from tests.seq2seq.search.test_search import OPTIONS, SENTENCE, VOCABULARY, Transfers
from tests.seq2seq.systems import every_system, model_of

Waiting = tuple[list[int], SearchOptions, int, tuple[Constraint, ...]]  # ids, options, step of admission, constraints

PHRASE = st.lists(st.integers(4, VOCABULARY - 1), min_size=1, max_size=3).map(tuple)
CONSTRAINTS = st.lists(
    st.builds(Constraint, PHRASE, st.none() | st.tuples(st.integers(0, 3), st.integers(4, 6))), max_size=2
).map(tuple)
WAITING = st.lists(st.tuples(SENTENCE, OPTIONS, st.integers(0, 6), CONSTRAINTS), min_size=2, max_size=5)


def run(table: SlotTable, waiting: Sequence[Waiting], shortlist: Shortlist | None = None) -> list[SearchResult]:
    """Search sentences, each admitted at its own step."""
    done: list[SearchResult] = []
    clock = 0
    while len(done) < len(waiting):
        now = [(key, one) for key, one in enumerate(waiting) if one[2] == clock]
        if now:
            batch = collate({"source": [ids for _, (ids, _, _, _) in now]})
            if shortlist:
                tokens = [[token for each in constraints for token in each.ids] for _, (_, _, _, constraints) in now]
                batch = replace(batch, candidates=shortlist.candidates([{"source": one[0]} for _, one in now], tokens))
            table.admit(batch, [request(key, one) for key, one in now])
        table.step()
        done += table.pop_finished()
        clock += 1
    return sorted(done, key=lambda one: int(str(one.key)))


def request(key: int, one: Waiting) -> SearchRequest:
    ids, options, _, constraints = one
    tokens = sum(len(constraint.ids) for constraint in constraints)
    return SearchRequest(key, options, options.output_limit(len(ids)) + tokens, True, constraints)


def contains(output: Sequence[int], phrases: Sequence[tuple[int, ...]]) -> bool:
    """Whether an output has all phrases, none of whose words are shared."""
    if not phrases:
        return True
    first, *others = phrases
    size = len(first)
    return any(
        contains([*output[:i], 0, *output[i + size :]], others)
        for i in range(len(output) - size + 1)
        if tuple(output[i : i + size]) == first
    )


def settled(
    result: SearchResult, other: SearchResult, constraints: Sequence[Constraint]
) -> tuple[list[Hypothesis], list[Hypothesis]]:
    """The hypotheses of two searches for one text that do not depend on rounding. Where an output has the words of a
    constraint twice, either can be the constraint's: such hypotheses have equal scores, and rounding decides which one
    stays in a beam, and so what the beam comes to."""
    if not constraints:
        return result.hypotheses, other.hypotheses
    best = result.hypotheses[0], other.hypotheses[0]
    if any(occurrences(one.ids, constraint.ids) > 1 for one in best for constraint in constraints):
        return [], []
    return [best[0]], [best[1]]


def occurrences(output: Sequence[int], phrase: tuple[int, ...]) -> int:
    return sum(tuple(output[i : i + len(phrase)]) == phrase for i in range(len(output)))


def check_written(result: SearchResult, constraints: Sequence[Constraint]) -> None:
    """Every output names the tokens that write its constraints: each once, from its begin to its end."""
    assert result.hypotheses
    for hypothesis in result.hypotheses:
        if not constraints:
            assert not hypothesis.constraints
            continue
        assert len(hypothesis.constraints) == len(hypothesis.ids)
        for index, constraint in enumerate(constraints):
            positions = [i for i, own in enumerate(hypothesis.constraints) if own == index]
            assert tuple(hypothesis.ids[i] for i in positions) == constraint.ids
            assert positions == list(range(positions[0], positions[-1] + 1))


SOME_SYSTEMS = ["rnnsearch", "contextual_gates", "luong", "uam"]


@pytest.mark.parametrize("system", slow_but(["contextual_gates", "uam"], SOME_SYSTEMS))
@pytest.mark.parametrize("penalty", ["none", "average", 0.6])
@pytest.mark.parametrize("phrases", [[(4,)], [(6, 5)], [(5, 5)], [(4,), (6,)], [(6,), (4, 6)], [(4, 4, 5)]])
def test_a_wide_beam_finds_the_best_output_with_the_constraints(
    system: str, penalty: str | float, phrases: list[tuple[int, ...]]
) -> None:
    small = model_of(system, vocabulary=7)
    words, longest, ids = range(4, 7), 3, [4, 6, 5, 4]
    outputs = [list(o) for n in range(longest + 1) for o in itertools.product([1, *words], repeat=n)]
    outputs = [output for output in outputs if contains(output, phrases)]
    batch = collate({"source": [ids] * len(outputs)}, outputs)
    readouts, _ = small.teacher_forced(small.encode(batch), batch.target_BL[:, None])
    log_p = small.log_probabilities(readouts)[:, 0].detach()

    def score(row: int) -> float:
        output = [*outputs[row], END]
        total = sum(float(log_p[row, i, word]) for i, word in enumerate(output))
        return total / {"none": 1.0, "average": len(output)}.get(str(penalty), ((5 + len(output)) / 6) ** 0.6)

    best = max(range(len(outputs)), key=score)
    options = SearchOptions(beam=64, length_penalty=penalty, max_length=longest)
    table = SlotTable(small, 64)
    constraints = tuple(Constraint(phrase) for phrase in phrases)
    table.admit(collate({"source": [ids]}), [SearchRequest(0, options, longest, constraints=constraints)])
    found: list[SearchResult] = []
    while not found:
        table.step()
        found = table.pop_finished()
    (result,) = found
    assert result.hypotheses[0].ids == outputs[best]
    assert result.hypotheses[0].score == pytest.approx(score(best))
    check_written(result, constraints)


@every_system
@pytest.mark.parametrize("watch", [pytest.param(1, marks=pytest.mark.slow), 4])
@settings(max_examples=4)
@given(waiting=WAITING)
def test_outputs_contain_their_constraints_whatever_else_is_in_the_table(
    system: str, watch: int, waiting: list[Waiting]
) -> None:
    """Of several lengths, beside sentences without any, admitted at any step, with any beam, greedy search too."""
    model = model_of(system)
    together = run(SlotTable(model, 6, watch), waiting)
    for one, found in zip(waiting, together, strict=True):
        ids, options, _, constraints = one
        check_written(found, constraints)
        (alone,) = run(SlotTable(model, options.beam), [(ids, options, 0, constraints)])
        ours, theirs = settled(found, alone, constraints)
        assert [h.ids for h in ours] == [h.ids for h in theirs]
        assert [h.score for h in ours] == pytest.approx([h.score for h in theirs], abs=1e-9)
        rescored = -model.loss(collate({"source": [ids]}, [found.hypotheses[0].ids])).nats.item()
        assert found.hypotheses[0].log_probability == pytest.approx(rescored, abs=1e-9)


@settings(max_examples=8)
@given(waiting=WAITING)
def test_an_ensemble_writes_constraints(waiting: list[Waiting]) -> None:
    ensemble = Ensemble([model_of(system) for system in MIXED]).eval()
    for one, found in zip(waiting, run(SlotTable(ensemble, 6), waiting), strict=True):
        check_written(found, one[3])


@settings(max_examples=8)
@given(waiting=WAITING, words=st.lists(st.integers(4, 39), max_size=8))
def test_constraints_outside_a_shortlist_are_written(waiting: list[Waiting], words: list[int]) -> None:
    model, shortlist = model_of("rnnsearch", 40), shortlist_of(words, [])
    outside = [
        (ids, options, step, (*constraints, Constraint((38, 11)))) for ids, options, step, constraints in waiting
    ]
    for one, found in zip(outside, run(SlotTable(model, 6), outside, shortlist), strict=True):
        check_written(found, one[3])
        allowed = {*words, *(token for constraint in one[3] for token in constraint.ids), 1}
        assert all(set(h.ids) <= allowed for h in found.hypotheses)


@pytest.mark.parametrize("system", ["rnnsearch", "luong", "coverage_neural"])
@settings(max_examples=10)
@given(plain=st.tuples(SENTENCE, OPTIONS), others=st.lists(st.tuples(SENTENCE, OPTIONS, CONSTRAINTS), min_size=1))
def test_a_sentence_without_constraints_is_searched_as_before_to_the_last_bit(
    system: str, plain: tuple[list[int], SearchOptions], others: list[tuple[list[int], SearchOptions, tuple]]
) -> None:
    tables = [SlotTable(model_of(system), 6, sync_interval=100) for _ in range(2)]
    batch = collate({"source": [plain[0], *(ids for ids, _, _ in others)]})
    for table, constrained in zip(tables, (True, False), strict=True):
        rows = [(*plain, 0, ()), *((ids, options, 0, own if constrained else ()) for ids, options, own in others)]
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
                width = min(first.shape[-1], other.shape[-1])  # constraints may make room for longer outputs
                assert first[..., :width].equal(other[..., :width]), name


def test_a_table_has_constraints_only_while_a_sentence_has_some() -> None:
    table, options = SlotTable(model_of("rnnsearch"), 3), SearchOptions(beam=3)
    table.admit(collate({"source": [[5, 6]]}), [SearchRequest("plain", options, 20)])
    assert table.rows is not None and table.rows.constraints is None
    constraint = Constraint((7, 8, 4))
    table.admit(collate({"source": [[7]]}), [SearchRequest("own", options, 20, constraints=(constraint,) * 3)])
    assert table.rows.constraints is not None and table.rows.constraints.column_NC.shape == (2, 16)
    table.cancel({"own"})
    assert table.rows is not None and table.rows.constraints is None


@pytest.mark.parametrize("system", ["rnnsearch", "luong", "word_attention"])
@settings(max_examples=10)
@given(ids=SENTENCE, options=OPTIONS, phrase=PHRASE, start=st.integers(0, 8))
def test_a_constraint_begins_where_attention_is_on_its_source_words_or_at_the_end(
    system: str, ids: list[int], options: SearchOptions, phrase: tuple[int, ...], start: int
) -> None:
    model, start = model_of(system), min(start, len(ids) - 1)
    constraint = Constraint(phrase, (start, start + 1))
    one = (ids, options, 0, (constraint,))
    (found,) = run(SlotTable(model, 6), [one])
    check_written(found, [constraint])
    assert found.attention_weights is not None
    memory = model.encode(collate({"source": [ids]}))
    for k, hypothesis in enumerate(found.hypotheses):
        first = hypothesis.constraints.index(0)
        weights_L = found.attention_weights.weights["source", "attention"][0, k, :first, start]
        assert (weights_L < DUE).all(), "another word was written where the constraint was due"
        weight = found.attention_weights.weights["source", "attention"][0, k, first, start]
        readouts, _ = model.teacher_forced(memory, torch.tensor([[[*hypothesis.ids, END]]]))
        log_V = model.log_probabilities(readouts)[0, 0, first]
        log_V[[0, 2]] = log_V[constraint.ids[0]] = -torch.inf
        would_end = int(log_V.argmax()) == END
        room = request(0, one).max_length - first
        assert weight >= ON_SOURCE - 1e-9 or would_end or room == len(phrase)


def test_banks_share_a_beam_in_turns() -> None:
    """Post and Vilar 2018, section 3: the best of each bank, then the second best; the share of an empty bank goes to
    the others."""
    score = torch.tensor([[-1.0, -2.0, -3.0, -4.0, -5.0, -torch.inf, -7.0]])
    bank = torch.tensor([[0, 0, 0, 2, 2, 2, 5]])
    order = bank_order(score, bank)
    assert order[0].argsort().tolist()[:6] == [6, 3, 0, 4, 1, 2]
    assert order[0, 5] == order.max()


def constrained_table(step: object = search_step, device: str = "cpu", joined: bool = True) -> SlotTable:
    """A table with a constrained sentence and another."""
    model: Predictor = model_of("rnnsearch")
    if device != "cpu":
        model = copy.deepcopy(model).to(device)
    joined_V = torch.arange(VOCABULARY) == 6 if joined else None
    table = SlotTable(model, 3, sync_interval=8, search_step=step, joined_V=joined_V)  # type: ignore[arg-type]
    options = SearchOptions(beam=3, max_length=6)
    constraints = (Constraint((7, 8), (0, 2)), Constraint((5,)))
    requests = [SearchRequest(0, options, 6, constraints=constraints), SearchRequest(1, options, 6)]
    table.admit(collate({"source": [[5, 6], [7]]}), requests)
    return table


def test_a_constrained_step_never_synchronises_with_the_device() -> None:
    table = constrained_table()
    with Transfers() as transfers:
        for _ in range(3):
            table.step()
            assert table.pop_finished() == []
    assert transfers.seen == []


def test_a_constrained_step_needs_no_host() -> None:
    """On the meta device, which raises where the host would read a value."""
    table = constrained_table(CapturedStep(capture=Recomputed()), "meta")
    for _ in range(4):
        table.step()


def steps(table: SlotTable) -> Iterator[list[int]]:
    for _ in range(6):
        table.step()
        assert table.rows is not None
        yield table.rows.written_NKL.flatten().tolist()


def test_a_constrained_step_is_captured_and_not_compiled() -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    expected = list(steps(constrained_table()))
    assert list(steps(constrained_table(CompiledStep(CAPTURE)))) == expected
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 0
    capture = Recomputed()
    assert list(steps(constrained_table(CapturedStep(capture=capture)))) == expected
    assert capture.replays > 0


def test_a_word_that_would_lengthen_a_constraint_does_not_follow_it() -> None:
    """Token 6 continues the word before it: it stands behind a constraint only where it is one's own."""
    for ids in ([5, 6], [7, 4, 4], [8]):
        options = SearchOptions(beam=3, n_best=3, max_length=6)
        table = SlotTable(model_of("rnnsearch"), 3, joined_V=torch.arange(VOCABULARY) == 6)
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
