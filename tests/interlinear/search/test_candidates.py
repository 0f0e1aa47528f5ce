"""Search among the candidate words of each sentence: that of a model which gives all other words no probability."""

import copy
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from interlinear.batch import Batch, collate
from interlinear.losses.training_loss import training_loss
from interlinear.minimum_risk.minimum_risk import target_log_likelihoods
from interlinear.models.ensemble import Ensemble
from interlinear.models.layers import int8
from interlinear.models.layers.int8 import Int8Linear, quantise
from interlinear.models.model import Model
from interlinear.models.protocol import EncoderDecoder
from interlinear.search import SearchOptions, SearchRequest, SlotTable
from interlinear.shortlist import Shortlist
from interlinear.shortlist.shortlist import WordLists
from interlinear.text import END, SPECIAL
from tests.interlinear.models.test_ensemble import MIXED
from tests.interlinear.recipes import each_recipe, small
from tests.interlinear.search.slot_table import WAITING, run, search
from tests.interlinear.search.test_search import compare_with_forced, watched_twice
from tests.interlinear.systems import every_system, model_of

VOCABULARY = 40
WORDS = st.lists(st.integers(len(SPECIAL), VOCABULARY - 1), max_size=12)
Waiting = list[tuple[list[int], SearchOptions, int]]


def shortlist_of(common: Sequence[int], lists: Sequence[Sequence[int]]) -> Shortlist:
    """A shortlist of one source, in whose vocabulary the last tokens have no words."""
    padded = [*lists, *[[]] * (VOCABULARY - len(lists))]
    own = WordLists.join([np.array(words, np.int32) for words in padded])
    return Shortlist(np.unique([*range(len(SPECIAL)), *common]).astype(np.int32), {"source": own}, {})


SHORTLISTS = st.builds(shortlist_of, WORDS, st.lists(WORDS, min_size=9, max_size=9))


def restricted(model: EncoderDecoder, words: Sequence[int]) -> EncoderDecoder:
    """A copy of a model whose output layer gives no probability to any other words."""
    model = copy.deepcopy(model)
    for member in [model] if isinstance(model, Model) else model.models:
        others = torch.ones(VOCABULARY, dtype=torch.bool)
        others[list(words)] = False
        with torch.no_grad():
            member.output.bias[others] = -torch.inf
    return model


def check_against_restricted(
    model: EncoderDecoder, waiting: Waiting, shortlist: Shortlist, watch: int | None = None
) -> None:
    """Sentences together among their candidates, and each alone with a model that has only these words."""
    together = run(SlotTable(model, 6, watch), waiting, shortlist=shortlist)
    for (ids, options, _), found in zip(waiting, together, strict=True):
        words = shortlist.words({"source": ids})
        (alone,) = run(SlotTable(restricted(model, words.tolist()), options.beam), [(ids, options, 0)])
        assert [h.ids for h in found.hypotheses] == [h.ids for h in alone.hypotheses]
        assert all(set(h.ids) <= set(words.tolist()) for h in found.hypotheses)
        for ours, theirs in zip(found.hypotheses, alone.hypotheses, strict=True):
            assert ours.score == pytest.approx(theirs.score, abs=1e-9)
            assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-9)


@every_system
@watched_twice
@settings(max_examples=3)
@given(waiting=WAITING, shortlist=SHORTLISTS)
def test_the_search_is_that_of_a_model_with_only_these_words(
    system: str, watch: int, waiting: Waiting, shortlist: Shortlist
) -> None:
    check_against_restricted(model_of(system, VOCABULARY), waiting, shortlist, watch)


@settings(max_examples=5)
@given(waiting=WAITING, shortlist=SHORTLISTS)
def test_an_ensemble_searches_among_the_same_words(waiting: Waiting, shortlist: Shortlist) -> None:
    check_against_restricted(Ensemble([model_of(system, VOCABULARY) for system in MIXED]).eval(), waiting, shortlist)


@every_system
@settings(max_examples=3)
@given(waiting=WAITING, shortlist=SHORTLISTS)
def test_a_sentence_has_the_same_result_beside_any_others(system: str, waiting: Waiting, shortlist: Shortlist) -> None:
    """Admitted late, beside wider sets of words, and after others have left."""
    model = model_of(system, VOCABULARY)
    together = run(SlotTable(model, 6), waiting, shortlist=shortlist)
    for (ids, options, _), found in zip(waiting, together, strict=True):
        (alone,) = run(SlotTable(model, 6), [(ids, options, 0)], shortlist=shortlist)
        assert [h.ids for h in alone.hypotheses] == [h.ids for h in found.hypotheses]
        assert [h.score for h in alone.hypotheses] == pytest.approx([h.score for h in found.hypotheses], abs=1e-12)


@every_system
@settings(max_examples=3)
@given(waiting=WAITING)
def test_all_words_as_candidates_change_nothing(system: str, waiting: Waiting) -> None:
    model, everything = model_of(system, VOCABULARY), shortlist_of(range(VOCABULARY), [])
    limited = run(SlotTable(model, 6), waiting, shortlist=everything)
    for ours, theirs in zip(limited, run(SlotTable(model, 6), waiting), strict=True):
        assert [h.ids for h in ours.hypotheses] == [h.ids for h in theirs.hypotheses]
        assert [h.score for h in ours.hypotheses] == pytest.approx([h.score for h in theirs.hypotheses], abs=1e-9)


@every_system
@settings(max_examples=2)
@given(waiting=WAITING, shortlist=SHORTLISTS)
def test_attention_weights_equal_those_of_forced_decoding(system: str, waiting: Waiting, shortlist: Shortlist) -> None:
    compare_with_forced(model_of(system, VOCABULARY), waiting, shortlist=shortlist)


def test_given_outputs_are_scored_in_the_whole_vocabulary() -> None:
    model = model_of("rnnsearch", VOCABULARY)
    batch = collate({"source": [[5, 6], [7]]}, [[30, 31], [32]])
    limited = Batch(
        batch.sources, batch.target_BL, candidates=shortlist_of([5], []).candidates([{"source": [5, 6]}] * 2)
    )
    assert torch.equal(training_loss(model, limited).nats, training_loss(model, batch).nats)
    target_BKL = batch.target_BL[:, None]
    scores = [
        target_log_likelihoods(model, model.encode(each), target_BKL, batch.target_lengths) for each in (limited, batch)
    ]
    assert torch.equal(*scores)


def test_probabilities_are_those_of_the_whole_vocabulary_normalised_over_the_candidates() -> None:
    model, shortlist = model_of("rnnsearch", VOCABULARY), shortlist_of([], [[]] * 5 + [[9, 12], [30]])
    batch = collate({"source": [[5], [6]]})
    candidates = shortlist.candidates([{"source": [5]}, {"source": [6]}])
    readout = torch.randn(2, 3, model.config.readout_size, dtype=torch.float64)
    with torch.no_grad():
        memory = model.encode(Batch(batch.sources, candidates=candidates))
        log_BKC, words_BC = model.next_words(memory, readout)
        whole_BKV = model.log_probabilities(readout).exp()
    for row, words in enumerate(([0, 1, 2, 3, 9, 12], [0, 1, 2, 3, 30])):
        own = whole_BKV[row][:, words]
        assert words_BC[row, : len(words)].tolist() == words
        torch.testing.assert_close(log_BKC[row, :, : len(words)].exp(), own / own.sum(-1, keepdim=True))
        assert (log_BKC[row, :, len(words) :] == -torch.inf).all()


def test_capacity_follows_the_candidates_of_the_sentences_in_the_table() -> None:
    model, shortlist = model_of("rnnsearch", VOCABULARY), shortlist_of([], [[]] * 5 + [[9], range(4, 40)])
    table = SlotTable(model, 2)
    options = SearchOptions(beam=2, max_length=9)

    def admit(key: str, ids: list[int]) -> None:
        batch = collate({"source": [ids]})
        candidates = shortlist.candidates([{"source": ids}])
        table.admit(Batch(batch.sources, candidates=candidates), [SearchRequest(key, options, 9)])

    admit("few", [5])
    assert table.memory is not None and table.memory.capacity == {"source": 8, "target": 8}
    assert table.padded_positions == 8
    admit("many", [6])
    assert table.memory.capacity == {"source": 8, "target": 40}
    table.cancel({"many"})
    assert table.memory.capacity == {"source": 8, "target": 8}
    (candidates,) = table.memory.candidates.values()
    assert candidates.words_BC.tolist() == [[0, 1, 2, 3, 9, 0, 0, 0]]
    assert torch.equal(candidates.bias_BC.isinf()[0], torch.arange(8) >= 5)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
@each_recipe()
def test_every_recipe_searches_among_candidates(recipe: str, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8, "MIN_FEATURES", 1)
    model, batch = small(recipe)
    model.eval()
    if precision == "bf16":
        model.bfloat16()
    elif precision == "int8":
        quantise(model)
        assert isinstance(model.output, Int8Linear)
    names = [*model.config.texts]
    own = WordLists.join([np.array(words, np.int32) for words in [[], [], [], [7], [], [6], [], [], [8]]])
    shortlist = Shortlist(np.arange(4, dtype=np.int32), dict.fromkeys(names, own), {})
    rows = [{names[-1]: [5, 6, 7]}, {names[-1]: [8]}]
    results = search(model, Batch(batch.sources, candidates=shortlist.candidates(rows)))
    for result, words in zip(results, ({1, 6, 7}, {1, 7, 8}), strict=True):
        assert result.hypotheses and all(set(h.ids) <= words for h in result.hypotheses)
        assert result.attention_weights is not None
        assert all(h.ids.count(END) == 0 and np.isfinite(h.score) for h in result.hypotheses)
