"""A processor that no package of ours knows: searched, batched, among candidates, compiled and captured."""

import itertools
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from interlinear.batch import collate
from interlinear.components import PROCESSORS
from interlinear.search import Constraint, SearchOptions, SearchRequest, SearchResult, SlotTable
from interlinear.search.captured import CapturedStep
from interlinear.search.compiled import CompiledStep
from interlinear.search.processors import NewRows, Processor, Step, Written
from interlinear.search.processors.processor import WORDS
from interlinear.search.step import SearchStep, search_step
from tests.interlinear.search.slot_table import OPTIONS, SENTENCE, Transfers, check_written, run, scores_of
from tests.interlinear.search.test_candidates import shortlist_of
from tests.interlinear.search.test_captured import Recomputed
from tests.interlinear.search.test_compiled import CAPTURE
from tests.interlinear.systems import model_of


@PROCESSORS.register("once_in_two")
@dataclass(frozen=True)
class OnceInTwo(Processor):
    """At every second position, only a token that its hypothesis has not written there before."""

    axes: ClassVar = {"written_NKC": (2, WORDS, False)}

    asked_N: Tensor
    written_NKC: Tensor

    @classmethod
    def start(cls, new: NewRows) -> Self:
        asked_N = torch.tensor([cls.wanted(request) for request in new.requests])
        return cls(asked_N, new.zeros(new.hypotheses, 0, dtype=torch.bool))

    def limit(self, log_NKC: Tensor, step: Step) -> Tensor:
        limited_N = self.asked_N & (step.length_N % 2 == 1)
        return log_NKC.masked_fill(self.written_NKC & limited_N[:, None, None], -torch.inf)

    def advance(self, written: Written) -> Self:
        words_C = torch.arange(self.written_NKC.shape[2], device=self.asked_N.device)
        now_NKC = (words_C == written.column_NK[..., None]) & (written.length_N % 2 == 1)[:, None, None]
        return replace(self, written_NKC=written.of_parents(self.written_NKC) | now_NKC)


def asking(options: SearchOptions) -> SearchOptions:
    return options.model_copy(update={"processors": ("once_in_two",)})


def limited(ids: list[int]) -> bool:
    return len(set(ids[1::2])) == len(ids[1::2])


MIXED = OPTIONS | OPTIONS.map(asking)
WAITING = st.lists(st.tuples(SENTENCE, MIXED, st.integers(0, 6)), min_size=2, max_size=6)


def assert_same(one: SearchResult, other: SearchResult) -> None:
    assert [h.ids for h in one.hypotheses] == [h.ids for h in other.hypotheses]
    assert [h.score for h in one.hypotheses] == pytest.approx([h.score for h in other.hypotheses], abs=1e-9)


def test_a_wide_beam_finds_the_best_outputs_that_it_allows() -> None:
    small, source = model_of("rnnsearch", vocabulary=7), [4, 6, 5, 4]
    allowed = [list(output) for output in itertools.product([1, 4, 5, 6], repeat=4) if limited(list(output))]
    scores = scores_of(small, source, allowed, "none")
    options = asking(SearchOptions(beam=64, n_best=4, length_penalty="none", max_length=4, min_length=4))
    (found,) = run(SlotTable(small, 64), [(source, options)])
    best = sorted(range(len(allowed)), key=scores.__getitem__, reverse=True)[:4]
    assert [h.ids for h in found.hypotheses] == [allowed[row] for row in best]
    assert [h.score for h in found.hypotheses] == pytest.approx([scores[row] for row in best])


@pytest.mark.parametrize("watch", [1, 4])
@settings(max_examples=15)
@given(waiting=WAITING)
def test_results_do_not_depend_on_the_rest_of_the_batch(
    watch: int, waiting: list[tuple[list[int], SearchOptions, int]]
) -> None:
    """Beside sentences without it, admitted early or late."""
    model = model_of("rnnsearch")
    together = run(SlotTable(model, 6, watch), waiting)
    for (ids, options, _), found in zip(waiting, together, strict=True):
        assert not options.processors or all(limited(h.ids) for h in found.hypotheses)
        assert_same(found, run(SlotTable(model, options.beam), [(ids, options, 0)])[0])


def test_it_acts_beside_constraints_and_among_candidates() -> None:
    model, shortlist = model_of("rnnsearch", 40), shortlist_of([5, 9, 12], [])
    options, constraint = SearchOptions(beam=3, max_length=8, min_length=6), Constraint((37, 12))
    waiting = [([5, 6], asking(options), 0), ([7], options, 1, (constraint,)), ([8, 8, 4], asking(options), 2)]
    together = run(SlotTable(model, 3), waiting, shortlist=shortlist)
    check_written(together[1], [constraint])
    for one, found in zip(waiting, together, strict=True):
        assert one[1] is options or all(limited(h.ids) for h in found.hypotheses)
        assert_same(found, run(SlotTable(model, 3), [(*one[:2], 0, *one[3:])], shortlist=shortlist)[0])


@pytest.mark.parametrize("kind", ["compiled", "captured"])
def test_its_step_is_compiled_and_captured(kind: str) -> None:
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    capture, options = Recomputed(), SearchOptions(beam=3, max_length=8, min_length=8)
    waiting = [(ids, own, 0) for ids, own in (([5, 6], asking(options)), ([7], options), ([8, 8, 4], asking(options)))]
    step: SearchStep = CompiledStep(CAPTURE) if kind == "compiled" else CapturedStep(capture=capture)
    found, expected = (
        run(SlotTable(model_of("rnnsearch"), 3, search_step=each), waiting) for each in (step, search_step)
    )
    for one, other in zip(found, expected, strict=True):
        assert_same(one, other)
    assert capture.replays > 3 if kind == "captured" else torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_a_table_has_it_only_while_a_sentence_wants_it() -> None:
    table, options = SlotTable(model_of("rnnsearch"), 3), SearchOptions(beam=3)
    for key, own in enumerate((options, asking(options))):
        table.admit(collate({"source": [[5, 6]]}), [SearchRequest(key, own, 20)])
        assert table.rows is not None
        assert [type(processor) for processor in table.rows.processors] == [OnceInTwo][:key]
    table.cancel({1})
    assert table.rows is not None and table.rows.processors == ()


def test_its_step_never_synchronises_with_the_device() -> None:
    table, options = SlotTable(model_of("rnnsearch"), 3, sync_interval=4), asking(SearchOptions(beam=3))
    table.admit(collate({"source": [[5, 6], [7]]}), [SearchRequest(key, options, 20) for key in range(2)])
    with Transfers() as transfers:
        table.step()
        table.cancel({0})
    assert transfers.seen == []


def test_a_processor_that_nobody_registered_is_refused() -> None:
    with pytest.raises(ValidationError, match="there is no processor other; there are"):
        SearchOptions(processors=("other",))
