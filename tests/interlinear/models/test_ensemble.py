"""Ensembles: the mean of the members' probabilities, and a search that works as for one model."""

import copy
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from interlinear.batch import collate
from interlinear.bundle import Bundle, Limits, ModelCard, ensemble_bundle, load, write_bundle
from interlinear.config import ImageGrid
from interlinear.errors import BundleError
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import Request
from interlinear.models.ensemble import Ensemble
from interlinear.search import SearchOptions, SlotTable
from interlinear.text import BEGIN, END, TextConfig, Tokenizer
from tests.interlinear.bundles import untrained
from tests.interlinear.search.slot_table import OPTIONS, SENTENCE, WAITING, run
from tests.interlinear.search.test_search import compare_with_forced, watched_twice
from tests.interlinear.systems import every_system, model_of

MIXED = ("rnnsearch", "contextual_gates", "interactive_attention", "coverage_neural", "uam")


def ensemble(*systems: str) -> Ensemble:
    return Ensemble([model_of(system) for system in systems]).eval()


@every_system
@pytest.mark.parametrize("copies", [1, 2])
@watched_twice
@settings(max_examples=1)
@given(waiting=st.lists(st.tuples(SENTENCE, OPTIONS, st.integers(0, 4)), min_size=1, max_size=3))
def test_an_ensemble_of_one_model_twice_equals_the_model(system: str, copies: int, watch: int, waiting) -> None:
    alone = run(SlotTable(model_of(system), 6), waiting, with_attention=True)
    together = run(SlotTable(ensemble(*[system] * copies), 6, watch), waiting, with_attention=True)
    for ours, theirs in zip(together, alone, strict=True):
        assert [h.ids for h in ours.hypotheses] == [h.ids for h in theirs.hypotheses]
        for one, other in zip(ours.hypotheses, theirs.hypotheses, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-12)
            assert one.log_probability == pytest.approx(other.log_probability, abs=1e-12)
        assert ours.attention_weights.matrices("source").keys() == theirs.attention_weights.matrices("source").keys()
        for kind, weights in theirs.attention_weights.matrices("source").items():
            torch.testing.assert_close(ours.attention_weights.matrices("source")[kind], weights, rtol=0, atol=1e-12)


def test_probabilities_and_attention_weights_are_the_means_of_the_members() -> None:
    """Every member is stepped alone, word by word, beside the ensemble; sizes of state, summary and readout differ."""
    members = [model_of(system) for system in MIXED]
    together = ensemble(*MIXED)
    batch = collate({"source": [[5, 6, 7, 4], [8]]})
    target = torch.tensor([[6, 4, 7], [5, 5, 8]])
    memory, own_memories = together.encode(batch), [member.encode(batch) for member in members]
    state = together.start(memory)
    own_states = [member.start(own) for member, own in zip(members, own_memories, strict=True)]
    token = torch.full((2, 1), BEGIN)
    for i in range(target.shape[1]):
        state, readout, attention_weights = together.step(memory, state, token)
        p, attention = 0.0, 0.0
        for k, member in enumerate(members):
            own_states[k], own, seen = member.step(own_memories[k], own_states[k], token)
            p = p + torch.exp(member.log_probabilities(own)) / len(members)
            attention = attention + seen.weights["source", "attention"] / len(members)
        torch.testing.assert_close(torch.exp(together.log_probabilities(readout)), p, rtol=0, atol=1e-12)
        torch.testing.assert_close(attention_weights.attention, attention, rtol=0, atol=1e-12)
        token = target[:, i : i + 1]


@watched_twice
def test_the_mean_by_hand(watch: int) -> None:
    """One model gives the words 4, 5 and the end 0.6, 0.3, 0.1 for any input; the other 0.1, 0.7, 0.2."""
    members = []
    for probabilities in ([0.6, 0.3, 0.1], [0.1, 0.7, 0.2]):
        model = copy.deepcopy(model_of("rnnsearch"))
        with torch.no_grad():
            model.output.weight.zero_()
            model.output.bias.fill_(-1e9)
            model.output.bias[[4, 5, END]] = torch.tensor(probabilities, dtype=torch.float64).log()
        members.append(model)
    greedy = SearchOptions(beam=1, length_penalty="none", max_length=2)
    (found,) = run(SlotTable(Ensemble(members), 1, watch), [([6, 7], greedy, 0)])
    (best,) = found.hypotheses
    assert best.ids == [5, 5]  # 0.35, 0.5 and 0.15 of each step; cut after two words
    assert best.log_probability == pytest.approx(math.log(0.5 * 0.5 * 0.15), abs=1e-12)


@watched_twice
@settings(max_examples=3)
@given(waiting=WAITING)
def test_results_do_not_depend_on_the_rest_of_the_batch(watch: int, waiting) -> None:
    together = run(SlotTable(ensemble(*MIXED), 6, watch), waiting, with_attention=True)
    for (ids, options, _), found in zip(waiting, together, strict=True):
        (alone,) = run(SlotTable(ensemble(*MIXED), options.beam), [(ids, options, 0)], with_attention=True)
        assert [h.ids for h in alone.hypotheses] == [h.ids for h in found.hypotheses]
        for ours, theirs in zip(alone.hypotheses, found.hypotheses, strict=True):
            assert ours.score == pytest.approx(theirs.score, abs=1e-9)
        steps = len(found.hypotheses[0].ids) + 1
        torch.testing.assert_close(
            found.attention_weights.matrices("source")["attention"][0, 0, :steps, : len(ids) + 1],
            alone.attention_weights.matrices("source")["attention"][0, 0, :steps, : len(ids) + 1], rtol=0, atol=1e-9,
        )  # fmt: skip


@pytest.mark.parametrize("systems", [("uam", "uam"), ("contextual_gates", "coverage_linguistic"), MIXED])
@watched_twice
@settings(max_examples=2)
@given(waiting=WAITING)
def test_attention_weights_equal_those_of_forced_decoding(systems: tuple[str, ...], watch: int, waiting) -> None:
    compare_with_forced(ensemble(*systems), waiting, watch)


def test_explanations_have_the_kinds_that_all_members_share() -> None:
    batch = collate({"source": [[5, 6, 7, 4], [8]]}, [[6, 4], [5, 5, 8]])
    for systems, kinds in {
        ("contextual_gates", "word_attention"): ["attention", "word_attention"],
        ("contextual_gates", "contextual_gates"): ["attention", "word_attention", "gated"],
        ("uam", "uam", "rnnsearch"): ["attention"],
        ("uam", "uam"): ["attention", "uam"],
    }.items():
        together = ensemble(*systems)
        assert together.attention_kinds == kinds
        attention_weights = together.forced_attention(together.encode(batch), batch.target_BL[:, None])
        assert (
            set(attention_weights.matrices("source")) == set(kinds)
            and attention_weights.gate is None
            and not attention_weights.fertility
        )
        members = [model_of(system) for system in systems]
        for kind, matrix in attention_weights.matrices("source").items():
            own = [
                m.forced_attention(m.encode(batch), batch.target_BL[:, None]).matrices("source")[kind] for m in members
            ]
            torch.testing.assert_close(matrix, sum(own) / len(own), rtol=0, atol=1e-12)


def bundles(folder: Path) -> tuple[Path, Path, Path]:
    """Two systems with one vocabulary, and one with another; their maximum lengths are 12, 9 and 12 words."""
    words = "ein hund läuft die katze schläft im garten".split()
    paths = []
    for name, text, system, longest in (
        ("plain", words, "rnnsearch", 12), ("gated", words, "contextual_gates", 9), ("other", words[1:], "luong", 12),
    ):  # fmt: skip
        config = TextConfig(units="words", vocabulary=60)
        tokenizers = {
            field: Tokenizer.train([" ".join(text)] * 3, config.model_copy(update={"language": language}))
            for field, language in (("source", "de"), ("target", "en"))
        }
        model = copy.deepcopy(model_of(system, tokenizers["source"].size)).float()
        card = ModelCard(model=model.config, limits=Limits(source_length=longest, target_length=longest))
        write_bundle(folder / name, model, tokenizers, card)
        paths.append(folder / name)
    return paths[0], paths[1], paths[2]


def test_bundles_of_one_vocabulary_form_an_ensemble(tmp_path: Path) -> None:
    plain, gated, _ = bundles(tmp_path)
    joined = ensemble_bundle([load(plain), load(gated)])
    assert joined.card.limits == Limits(source_length=9, target_length=9)
    request = Request({"source": "ein hund schläft"}, SearchOptions(beam=3, max_length=6), explain=True)
    (answer,) = SequenceGenerator(joined).generate([request])
    assert set(answer.explanation.matrices) == {"attention", "posterior"}
    (pair,) = SequenceGenerator(joined).align([({"source": "ein hund"}, "die katze")])
    assert len(pair.alignment) == 2


def test_a_member_with_another_vocabulary_is_refused_by_its_file(tmp_path: Path) -> None:
    plain, gated, other = bundles(tmp_path)
    with pytest.raises(BundleError, match=r"other/tokenizer\.source\.json: an ensemble has one vocabulary") as caught:
        ensemble_bundle([load(plain), load(gated), load(other)])
    assert "plain" in str(caught.value) and "\n" not in str(caught.value)


def image_bundle(folder: Path, name: str, image: ImageGrid | None) -> Bundle:
    """An untrained model of a text and, where one is given, an image, with the vocabulary that all of them have."""
    tokenizer = Tokenizer.train(["ein hund schläft"], TextConfig(units="words", vocabulary=20))
    both, images = dict.fromkeys(("source", "target"), tokenizer), {} if image is None else {"image": image}
    return untrained(folder / name, both, 1, images=images, combination="flat" if images else "none")


def test_members_that_read_other_sources_or_other_images_are_refused(tmp_path: Path) -> None:
    grid = ImageGrid(rows=2, columns=2, features=6, made_by="a network")
    text, first = image_bundle(tmp_path, "text", None), image_bundle(tmp_path, "first", grid)
    for pair in ([text, first], [first, text]):
        with pytest.raises(BundleError, match="models read the same sources"):
            ensemble_bundle(pair)
    for change in ({"rows": 4}, {"features": 7}, {"made_by": "another"}):
        other = image_bundle(tmp_path, "-".join(map(str, change.values())), grid.model_copy(update=change))
        with pytest.raises(
            BundleError, match=r"read images in the same form, .* 'image' is image, .* by .* and image, .* by a network"
        ):
            ensemble_bundle([first, other])
    second = image_bundle(tmp_path, "second", grid)
    pictured = Request({"source": "ein hund"}, SearchOptions(max_length=4), images={"image": torch.zeros(4, 6).numpy()})
    (answer,) = SequenceGenerator(ensemble_bundle([first, second])).generate([pictured])
    assert answer.candidates
