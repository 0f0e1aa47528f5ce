"""Beam search: one ranking for any batch, scores are log-probabilities, and the optimum with a wide beam."""

import itertools
import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from interlinear.batch import collate
from interlinear.losses.training_loss import training_loss
from interlinear.models.protocol import EncoderDecoder
from interlinear.search import SearchOptions, SearchRequest, SearchResult, SlotTable
from interlinear.shortlist import Shortlist
from interlinear.text import END
from tests.interlinear.search.slot_table import OPTIONS, SENTENCE, VOCABULARY, WAITING, Transfers, run, scores_of
from tests.interlinear.systems import ALL, COVERING, every_system, model_of

MODEL = model_of("rnnsearch")
# Steps between two transfers to the host: a sentence that ends in between stays in its slot. 1 on a CPU, 4 on a GPU.
# The table does this without the model, so that one model has every interval, and the others one.
watched = pytest.mark.parametrize("watch", [1, 3, 4, 7])
watched_twice = pytest.mark.parametrize("watch", [1, 4])  # what a CPU and a GPU have
every_system_watched = pytest.mark.parametrize(
    ("system", "watch"),
    [
        *(pytest.param(name, 4, marks=() if name in COVERING else pytest.mark.slow) for name in ALL),
        *(("rnnsearch", watch) for watch in (1, 3, 7)),
    ],
)


@every_system_watched
@settings(max_examples=3)
@given(waiting=WAITING)
def test_results_do_not_depend_on_the_rest_of_the_batch(
    system: str, watch: int, waiting: list[tuple[list[int], SearchOptions, int]]
) -> None:
    """Alone or in a batch, admitted early or late, at any transfer interval."""
    model = model_of(system)
    together = run(SlotTable(model, 6, watch), waiting, with_attention=True)
    for (ids, options, _), found in zip(waiting, together, strict=True):
        (alone,) = run(SlotTable(model, options.beam, sync_interval=1), [(ids, options, 0)], with_attention=True)
        assert [h.ids for h in alone.hypotheses] == [h.ids for h in found.hypotheses]
        for ours, theirs in zip(alone.hypotheses, found.hypotheses, strict=True):
            assert ours.score == pytest.approx(theirs.score, abs=1e-9)
        assert alone.attention_weights.matrices("source").keys() == set(model.config.attention_kinds)
        for kind, ours_looks in alone.attention_weights.matrices("source").items():
            for k, hypothesis in enumerate(found.hypotheses):
                steps = len(hypothesis.ids) + 1
                theirs_looks = found.attention_weights.matrices("source")[kind][0, k, :steps]
                torch.testing.assert_close(
                    theirs_looks[:, : len(ids) + 1], ours_looks[0, k, :steps, : len(ids) + 1], rtol=0, atol=1e-9
                )
                assert (theirs_looks[:, len(ids) + 1 :] == 0).all()


@every_system_watched
def test_a_result_does_not_depend_on_the_step_of_admission(system: str, watch: int) -> None:
    """Sixty sentences, admitted at every phase of the transfer interval: most end between two transfers to the host,
    and some would go on to an output with a better mean."""
    drawn = random.Random(3)
    sentences = [[drawn.randint(4, VOCABULARY - 1) for _ in range(drawn.randint(1, 12))] for _ in range(60)]
    options = [SearchOptions(beam=i % 3 + 1, shrinking=i % 2 == 0, max_length=drawn.randint(4, 15)) for i in range(60)]
    alone = run(SlotTable(model_of(system), 3, sync_interval=1), list(zip(sentences, options, [0] * 60, strict=True)))
    steps = [i // 2 % watch for i in range(60)]
    late = run(SlotTable(model_of(system), 3, watch), list(zip(sentences, options, steps, strict=True)))
    assert [[h.ids for h in one.hypotheses] for one in late] == [[h.ids for h in one.hypotheses] for one in alone]


@every_system_watched
@pytest.mark.parametrize("words", [1, 6])
def test_a_sentence_at_its_limit_stays_inside_its_row(system: str, words: int, watch: int) -> None:
    """Every output has exactly as many words as allowed: the next step has no position left to write to."""
    options = SearchOptions(beam=2, n_best=2, min_length=words, max_length=words)
    (alone,) = run(SlotTable(model_of(system), 2, sync_interval=1), [([5, 6, 7], options, 0)])
    found = run(SlotTable(model_of(system), 2, watch), [([5, 6, 7], options, step) for step in range(watch)])
    for one in found:
        assert [h.ids for h in one.hypotheses] == [h.ids for h in alone.hypotheses]
        assert all(len(h.ids) == words for h in one.hypotheses)


@watched
@settings(max_examples=20)
@given(waiting=st.lists(st.tuples(SENTENCE, OPTIONS), min_size=1, max_size=4))
def test_a_finished_sentence_does_not_change_until_it_leaves(
    watch: int, waiting: list[tuple[list[int], SearchOptions]]
) -> None:
    """No further end symbols, no writes, no change of score: results and prefixes are read from these tensors."""
    table = SlotTable(MODEL, 6, watch)
    asked = [SearchRequest(key, options, options.output_limit(len(ids))) for key, (ids, options) in enumerate(waiting)]
    table.admit(collate({"source": [ids for ids, _ in waiting]}), asked)
    prefixes: dict[object, list[int]] = {}
    while table.active:
        before, keys = table.rows, range(len(waiting))
        prefixes |= table.prefixes(keys)
        table.step()
        after = table.rows
        assert before is not None and after is not None
        for row in before.done_N.nonzero().flatten().tolist():
            for name in (
                "score_NK", "length_N", "written_NKL", "parent_NKL", "final_NK", "final_log_NK", "final_length_NK",
                "final_parent_NK", "ended_N", "done_N",
            ):  # fmt: skip
                assert getattr(before, name)[row].equal(getattr(after, name)[row]), name
        grown = table.prefixes(keys)
        assert all(ids[: len(prefixes[key])] == prefixes[key] for key, ids in grown.items() if key in prefixes)
        prefixes |= grown
        for one in table.pop_finished():
            assert one.hypotheses[0].ids[: len(prefixes[one.key])] == prefixes[one.key]


@every_system
def test_a_step_never_synchronises_with_the_device(system: str) -> None:
    table = SlotTable(model_of(system), 3, sync_interval=4)
    options = SearchOptions(beam=3, max_length=6, coverage_penalty=0.3)
    table.admit(
        collate({"source": [[5, 6], [7]]}), [SearchRequest(key, options, 6, with_attention=True) for key in range(2)]
    )
    with Transfers() as transfers:
        for _ in range(3):
            table.step()
            assert table.pop_finished() == [] and table.prefixes({0, 1}) == {}
        table.cancel({0})
    assert transfers.seen == [] and table.active == 1
    table.step()
    assert table.prefixes({0, 1}).keys() == {1}


def compare_with_forced(
    model: EncoderDecoder,
    waiting: list[tuple[list[int], SearchOptions, int]],
    watch: int | None = None,
    shortlist: Shortlist | None = None,
) -> None:
    """Attention weights recorded by the search, and those of forced decoding of the same outputs."""
    table = SlotTable(model, 6, watch)
    results = run(table, waiting, with_attention=True, shortlist=shortlist)
    for (ids, _, _), found in zip(waiting, results, strict=True):
        assert found.attention_weights is not None
        memory = model.encode(collate({"source": [ids]}))
        for k, hypothesis in enumerate(found.hypotheses):
            forced, steps = (
                model.forced_attention(memory, torch.tensor([[[*hypothesis.ids, END]]])),
                len(hypothesis.ids) + 1,
            )
            there = found.attention_weights.map(lambda tensor, k=k, steps=steps: tensor[:, k : k + 1, :steps])
            ours, theirs = there.matrices("source"), forced.matrices("source")
            assert list(ours) == list(theirs)
            for kind, weights in theirs.items():
                torch.testing.assert_close(ours[kind][..., : len(ids) + 1], weights, rtol=0, atol=1e-9)
                assert not ours[kind][..., len(ids) + 1 :].any()
            for own, gate in zip(there.gates, forced.gates, strict=True):
                torch.testing.assert_close(own, gate, rtol=0, atol=1e-9)
            for source, fertility in forced.fertility.items():
                torch.testing.assert_close(there.fertility[source][:, : len(ids) + 1], fertility, rtol=0, atol=1e-9)
    assert not table.records and not table.admitted_at  # no records are kept when nobody needs them


@every_system_watched
@settings(max_examples=2)
@given(waiting=WAITING)
def test_attention_weights_equal_those_of_forced_decoding(
    system: str, watch: int, waiting: list[tuple[list[int], SearchOptions, int]]
) -> None:
    compare_with_forced(model_of(system), waiting, watch)


@every_system_watched
@settings(max_examples=3)
@given(ids=SENTENCE, options=OPTIONS)
def test_scores_are_log_probabilities(system: str, watch: int, ids: list[int], options: SearchOptions) -> None:
    model = model_of(system)
    (found,) = run(SlotTable(model, 6, watch), [(ids, options, 0)])
    assert 1 <= len(found.hypotheses) <= options.n_best
    assert [h.score for h in found.hypotheses] == sorted((h.score for h in found.hypotheses), reverse=True)
    for hypothesis in found.hypotheses:
        assert options.min_length <= len(hypothesis.ids) <= (options.max_length or 0)
        rescored = -training_loss(model, collate({"source": [ids]}, [hypothesis.ids])).nats.item()
        assert hypothesis.log_probability == pytest.approx(rescored, abs=1e-9)
        if not options.coverage_penalty:
            length = len(hypothesis.ids) + 1
            divisor = {"none": 1.0, "average": length}.get(str(options.length_penalty), ((5 + length) / 6) ** 0.6)
            assert hypothesis.score == pytest.approx(rescored / divisor, abs=1e-9)


@every_system_watched
@pytest.mark.parametrize("penalty", ["none", "average", 0.6])
def test_a_wide_beam_finds_the_global_optimum(system: str, penalty: str | float, watch: int) -> None:
    small = model_of(system, vocabulary=7)
    words, longest, ids = range(4, 7), 3, [4, 6, 5, 4]
    outputs = [list(o) for n in range(longest + 1) for o in itertools.product([1, *words], repeat=n)]
    scores = scores_of(small, ids, outputs, penalty)
    best = sorted(range(len(outputs)), key=scores.__getitem__, reverse=True)[:4]
    options = SearchOptions(beam=64, n_best=4, length_penalty=penalty, max_length=longest)
    (found,) = run(SlotTable(small, 64, watch), [(ids, options, 0)])
    assert [h.ids for h in found.hypotheses] == [outputs[row] for row in best]
    assert [h.score for h in found.hypotheses] == pytest.approx([scores[row] for row in best])


@watched
def test_greedy_search_takes_the_most_probable_word(watch: int) -> None:
    ids = [5, 6, 7, 8]
    (found,) = run(SlotTable(MODEL, 1, watch), [(ids, SearchOptions(beam=1, max_length=8), 0)])
    memory = MODEL.encode(collate({"source": [ids]}))
    state, token, written = MODEL.start(memory), torch.tensor([[2]]), []
    while len(written) < 8:
        state, readout, _ = MODEL.step(memory, state, token)
        log_p = MODEL.log_probabilities(readout)[0, 0]
        log_p[[0, 2]] = -torch.inf
        if int(log_p.argmax()) == END:
            break
        written.append(int(log_p.argmax()))
        token = torch.tensor([[written[-1]]])
    assert found.hypotheses[0].ids == written


@watched
def test_a_shrinking_beam_returns_as_many_outputs_as_its_initial_width(watch: int) -> None:
    ids = [5, 6, 7, 8]
    options = SearchOptions(beam=4, n_best=4, shrinking=True, max_length=30)
    (found,) = run(SlotTable(MODEL, 4, watch), [(ids, options, 0)])
    assert len(found.hypotheses) == 4
    (narrow,) = run(SlotTable(MODEL, 1, watch), [(ids, options.model_copy(update={"beam": 1, "n_best": 1}), 0)])
    (greedy,) = run(SlotTable(MODEL, 1, watch), [(ids, SearchOptions(beam=1, max_length=30), 0)])
    assert narrow.hypotheses[0].ids == greedy.hypotheses[0].ids


@watched
def test_source_capacity_shrinks_when_long_sentences_leave(watch: int) -> None:
    table = SlotTable(MODEL, 2, watch)
    long, short = list(range(4, 9)) * 8, [4, 5]
    asked = [
        SearchRequest("long", SearchOptions(beam=2), 3),
        SearchRequest("short", SearchOptions(beam=2, min_length=20), 30),
    ]
    table.admit(collate({"source": [long, short]}), asked)
    assert table.memory is not None and table.memory.capacity == {"source": 48}
    while table.active == 2:
        table.step()
        table.pop_finished()
    assert table.memory is not None and table.memory.capacity == {"source": 8}


@watched
def test_cancelling_a_sentence_does_not_affect_the_others(watch: int) -> None:
    options = SearchOptions(beam=3, max_length=9)
    (alone,) = run(SlotTable(MODEL, 3), [([5, 6, 7], options, 0)])
    table = SlotTable(MODEL, 3, watch)
    table.admit(
        collate({"source": [[4] * 30, [5, 6, 7]]}),
        [SearchRequest("gone", options, 9), SearchRequest("here", options, 9)],
    )
    table.step()
    table.cancel({"gone"})
    done: list[SearchResult] = []
    while table.active:
        table.step()
        done += table.pop_finished()
    assert [one.key for one in done] == ["here"]
    assert done[0].hypotheses[0].ids == alone.hypotheses[0].ids


@pytest.mark.parametrize("wrong", [{"beam": 0}, {"beam": 65}, {"n_best": 6}, {"min_length": 5, "max_length": 4}])
def test_invalid_options_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        SearchOptions(**wrong)
