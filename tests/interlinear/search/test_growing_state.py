"""A model whose state grows with the output is searched like ours: in slots, batched, constrained, compiled, explained,
and in an ensemble with a recurrent one. Nothing of the search knows of it."""

import itertools

import pytest
import torch
from hypothesis import given, settings

from interlinear.batch import collate
from interlinear.generation.forced_decoding import forced_log_probabilities
from interlinear.models.ensemble import Ensemble
from interlinear.models.protocol import EncoderDecoder
from interlinear.search import Constraint, SearchOptions, SearchResult, SlotTable
from interlinear.search.compiled import CompiledStep
from interlinear.text import END
from tests.interlinear.search.causal_average import CausalAverage
from tests.interlinear.search.slot_table import CONSTRAINTS, SENTENCE, VOCABULARY, WAITING, check_written, run, search
from tests.interlinear.systems import model_of


def toy() -> EncoderDecoder:
    torch.manual_seed(3)
    return CausalAverage(VOCABULARY).double().eval()


def ensemble() -> EncoderDecoder:
    return Ensemble([toy(), model_of("contextual_gates")]).eval()


MODELS = {"alone": toy(), "in an ensemble": ensemble()}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)


@every_model
@settings(max_examples=10)
@given(waiting=WAITING)
def test_results_do_not_depend_on_the_rest_of_the_batch(
    model: EncoderDecoder, waiting: list[tuple[list[int], SearchOptions, int]]
) -> None:
    together = run(SlotTable(model, 6), waiting, with_attention=True)
    for (ids, options, _), found in zip(waiting, together, strict=True):
        (alone,) = run(SlotTable(model, options.beam), [(ids, options, 0)], with_attention=True)
        assert_same(alone, found, len(ids) + 1)


def assert_same(one: SearchResult, other: SearchResult, positions: int) -> None:
    """The same hypotheses, scores, and weights at the source's positions, within rounding."""
    assert [h.ids for h in one.hypotheses] == [h.ids for h in other.hypotheses]
    for k, (ours, theirs) in enumerate(zip(one.hypotheses, other.hypotheses, strict=True)):
        assert ours.score == pytest.approx(theirs.score, abs=1e-9)
        assert one.attention_weights is not None and other.attention_weights is not None
        for kind, weights in one.attention_weights.weights.items():
            steps = (0, k, slice(len(ours.ids) + 1), slice(positions))
            torch.testing.assert_close(weights[steps], other.attention_weights.weights[kind][steps], rtol=0, atol=1e-9)


@every_model
def test_a_wide_beam_finds_the_most_probable_output_with_its_probability(model: EncoderDecoder) -> None:
    """Of all outputs of up to two words, by forced decoding."""
    outputs = [list(each) for n in range(3) for each in itertools.product(range(3, VOCABULARY), repeat=n)]
    memory = model.encode(collate({"source": [[5, 6, 7]]}))
    logs = []
    for output in outputs:
        target_11L = torch.tensor([[[*output, END]]])
        logs.append(float(forced_log_probabilities(model, memory, target_11L).detach().sum()))
    best = max(range(len(outputs)), key=logs.__getitem__)
    options = SearchOptions(beam=64, length_penalty="none", max_length=2, shrinking=False)
    (found,) = run(SlotTable(model, 64), [([5, 6, 7], options)])
    assert found.hypotheses[0].ids == outputs[best]
    assert found.hypotheses[0].score == pytest.approx(logs[best], abs=1e-9)


@every_model
@settings(max_examples=20)
@given(ids=SENTENCE, constraints=CONSTRAINTS)
def test_constraints_are_written(model: EncoderDecoder, ids: list[int], constraints: tuple[Constraint, ...]) -> None:
    options = SearchOptions(beam=4, n_best=2, max_length=9)
    (found,) = run(SlotTable(model, 4), [(ids, options, 0, constraints)])
    check_written(found, constraints)


@every_model
def test_explanations_are_the_weights_of_forced_decoding(model: EncoderDecoder) -> None:
    (found,) = search(model, batch := collate({"source": [[5, 6, 7]]}))
    target_11L = torch.tensor([[[*found.hypotheses[0].ids, END]]])
    forced = model.forced_attention(model.encode(batch), target_11L).attention[0, 0]
    assert found.attention_weights is not None
    torch.testing.assert_close(found.attention_weights.attention[0, 0, : len(forced), :4], forced, rtol=0, atol=1e-9)


@pytest.mark.slow  # the compiler takes half a minute
def test_a_compiled_step_finds_the_same() -> None:
    sentences = [[5, 6, 7], [8], [4, 5, 6, 7, 8, 4]]
    waiting = [(ids, SearchOptions(beam=3, max_length=40, min_length=35), 0) for ids in sentences]
    plain = run(SlotTable(toy(), 3), waiting, with_attention=True)
    compiled = run(SlotTable(toy(), 3, search_step=CompiledStep()), waiting, with_attention=True)
    for ids, one, other in zip(sentences, plain, compiled, strict=True):
        assert_same(one, other, len(ids) + 1)


@every_model
def test_an_output_may_be_longer_than_the_first_buffer(model: EncoderDecoder) -> None:
    """Those of a short and of a long sentence, which comes later, are written in one table."""
    short, long = SearchOptions(beam=2, max_length=9), SearchOptions(beam=2, min_length=70, max_length=70)
    together = run(SlotTable(model, 2), [([5, 6], short, 0), ([5, 6, 7], long, 2)])
    alone = [run(SlotTable(model, 2), [one])[0] for one in (([5, 6], short), ([5, 6, 7], long))]
    assert [r.hypotheses[0].ids for r in together] == [r.hypotheses[0].ids for r in alone]
    assert len(together[1].hypotheses[0].ids) == 70
