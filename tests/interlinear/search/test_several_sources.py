"""Several sources: search in batches with missing sources, explanations, and source dropout."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from interlinear.batch import Batch, ImageInput, TextInput, collate, stack_images
from interlinear.config import ImageGrid, ImageNetwork, RecurrentConfig, TextVocabulary
from interlinear.images.decode import blank_image
from interlinear.losses.training_loss import training_loss
from interlinear.models.model import Model, build, drop_sources
from interlinear.search import SearchOptions, SearchRequest, SearchResult, SlotTable
from tests.interlinear.search.test_search import watched_twice
from training.recipe import load_recipe

TEXTS: dict[str, list[list[int] | None]] = {
    "source": [[5, 6, 7], None, [8, 4, 4, 5, 7, 6, 8], [7], [6, 5]],
    "mt": [None, [4, 5], [8], [5, 6, 7, 8, 4, 4, 5, 6, 7, 8], [4]],
}
IMAGES = [True, True, False, False, True]
SENTENCES = len(IMAGES)
VARIANTS: dict[str, dict[str, Any]] = {
    "concat": {"combination": "concat"},
    "flat with a sentinel": {"combination": "flat", "sentinel": True},
    "hierarchical, shared": {"combination": "hierarchical", "share_projections": True, "attention_size": 5},
    "flat, coverage, two lstm layers": {"combination": "flat", "coverage": "neural", "layers": 2, "cell": "lstm"},
    "hierarchical, linguistic coverage, luong's order": {
        "combination": "hierarchical", "coverage": "linguistic", "decoder": "luong",
    },
    "concat, look before the cell": {"combination": "concat", "decoder": "bahdanau"},
}  # fmt: skip
each = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())


def model_of(network: ImageNetwork | None = None, **variant: Any) -> Model:
    torch.manual_seed(2)
    words = TextVocabulary(vocabulary=9)
    image = ImageGrid(rows=1, columns=1, features=128, network=network) if network else GRID
    chosen: dict[str, Any] = {
        "cell": "gru", "decoder": "conditional", "first_state": "ends", "embedding": 6, "hidden": 5,
        "initialization": "uniform", "initialization_scale": 1.2, **variant,
    }  # fmt: skip
    return (
        build(RecurrentConfig(**chosen, sources={"source": words, "mt": words, "image": image}, target=words))
        .double()
        .eval()
    )


GRID = ImageGrid(rows=2, columns=3, features=4)
FEATURES = torch.randn(SENTENCES, GRID.regions, GRID.features, generator=torch.Generator().manual_seed(1)).double()


def batch_of(rows: list[int]) -> Batch:
    lengths = torch.tensor([GRID.regions * IMAGES[row] for row in rows])
    texts = {name: [own[row] for row in rows] for name, own in TEXTS.items()}
    return collate(texts, images={"image": ImageInput(FEATURES[rows], lengths)})


def searched(model: Model, groups: list[list[int]], watch: int | None = None) -> dict[int, SearchResult]:
    """The sentences of each group are admitted together, one step after the group before."""
    table = SlotTable(model, 4, watch)
    found: dict[int, SearchResult] = {}
    waiting = list(groups)
    while waiting or table.active:
        if waiting:
            rows = waiting.pop(0)
            options = SearchOptions(beam=3, n_best=2)
            table.admit(
                batch_of(rows), [SearchRequest(row, options, max_length=12, with_attention=True) for row in rows]
            )
        table.step()
        found |= {int(str(done.key)): done for done in table.pop_finished()}
    return found


@each
@watched_twice
def test_search_in_a_batch_equals_search_alone(variant: dict[str, Any], watch: int) -> None:
    model = model_of(**variant)
    alone = {row: searched(model, [[row]])[row] for row in range(SENTENCES)}
    for groups in ([list(range(SENTENCES))], [[2, 0], [3], [1, 4]]):
        beside = searched(model, groups, watch)
        for row, expected in alone.items():
            assert [h.ids for h in beside[row].hypotheses] == [h.ids for h in expected.hypotheses]
            for ours, theirs in zip(beside[row].hypotheses, expected.hypotheses, strict=True):
                assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-9)
            ours_looks, theirs_looks = beside[row].attention_weights, expected.attention_weights
            assert ours_looks is not None and theirs_looks is not None
            for key, weights in theirs_looks.weights.items():
                width = min(weights.shape[-1], ours_looks.weights[key].shape[-1])
                steps = len(expected.hypotheses[0].ids) + 1
                torch.testing.assert_close(
                    ours_looks.weights[key][0, 0, :steps, :width], weights[0, 0, :steps, :width], rtol=0, atol=1e-9
                )
                assert not ours_looks.weights[key][0, 0, :steps, width:].any()


@each
@watched_twice
def test_weights_sum_to_one_over_the_sources_that_are_present(variant: dict[str, Any], watch: int) -> None:
    model = model_of(**variant)
    attention_weights = {
        row: done.attention_weights for row, done in searched(model, [list(range(SENTENCES))], watch).items()
    }
    for row, found in attention_weights.items():
        assert found is not None
        there = [name for name, own in TEXTS.items() if own[row] is not None] + ["image"] * IMAGES[row]
        sums = {name: found.weights[name, "attention"][0, 0].sum(-1) for name in ("source", "mt", "image")}
        for name, total in sums.items():
            if name not in there:
                assert not total.any()
            elif model.config.combination != "flat":
                torch.testing.assert_close(total, torch.ones_like(total))
        if model.config.combination != "concat":
            between = torch.stack([weight[0, 0] for weight in found.source_weights.values()]).sum(0)
            torch.testing.assert_close(between, torch.ones_like(between))


def test_a_network_reads_only_the_images_that_are_present() -> None:
    model = model_of(ImageNetwork(kind="small", size=16), combination="hierarchical").float()
    pixels = torch.randint(0, 256, (SENTENCES, 16, 16, 3), dtype=torch.uint8)
    batch = collate(TEXTS, images={"image": ImageInput(pixels, torch.tensor([int(there) for there in IMAGES]))})
    garbage = pixels.clone()
    garbage[[2, 3]] = 255
    other = dataclasses.replace(
        batch, sources=batch.sources | {"image": ImageInput(garbage, batch.image("image").lengths_B)}
    )
    for name, view in model.encode(batch).views.items():
        torch.testing.assert_close(view.values_BTD, model.encode(other).views[name].values_BTD, rtol=0, atol=0)


@settings(max_examples=50)
@given(
    lengths=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8), seed=st.integers(0, 99)
)
def test_source_dropout_leaves_at_least_one_source(lengths: list[tuple[int, int]], seed: int) -> None:
    torch.manual_seed(seed)
    ids = torch.ones(len(lengths), 3, dtype=torch.long)
    one, two = torch.tensor(lengths).unbind(1)
    batch = drop_sources(Batch({"source": TextInput(ids, one), "mt": TextInput(ids, two)}), 0.7)
    kept = torch.stack([source.lengths_B for source in batch.sources.values()])
    given_lengths = torch.stack([one, two])
    assert ((kept == 0) | (kept == given_lengths)).all()
    assert (kept.amax(0) > 0).equal(given_lengths.amax(0) > 0)


def test_source_dropout_drops_the_configured_share() -> None:
    torch.manual_seed(0)
    ids = torch.ones(4000, 3, dtype=torch.long)
    full = torch.full((4000,), 3)
    batch = drop_sources(Batch({name: TextInput(ids, full) for name in ("a", "b", "c")}), 0.3)
    hidden = [float((source.lengths_B == 0).double().mean()) for source in batch.sources.values()]
    assert all(share == pytest.approx(0.3 - 0.3**3, abs=0.03) for share in hidden)


def test_source_dropout_on_the_device_drops_the_same_as_on_the_host() -> None:
    """Also where sources are missing already."""
    ids = torch.full((50, 1), 3)
    batch = Batch({name: TextInput(ids, torch.arange(50) % every) for name, every in (("a", 2), ("b", 3), ("c", 50))})
    dropped = []
    for one in (batch, batch.without_host_lengths()):
        torch.manual_seed(1)
        dropped.append([source.lengths_B for source in drop_sources(one, 0.4).sources.values()])
    torch.testing.assert_close(*dropped, rtol=0, atol=0)
    assert any((lengths_B == 0).sum() > (source.lengths_B == 0).sum() for lengths_B, source in
               zip(dropped[0], batch.sources.values(), strict=True))  # fmt: skip


def test_an_image_dropped_in_training_is_absent_from_every_term_of_the_loss() -> None:
    recipe = load_recipe("multimodal_hierarchical")
    changed = {"embedding": 8, "hidden": 8, "attention_size": None, "combination_size": None, "dropout": 0.0}
    changed |= {"image_words": 0.5, "source_dropout": 0.5}
    recipe = recipe.model_copy(update={"model": recipe.model.model_copy(update=changed)})
    config = recipe.model_for(dict.fromkeys([*recipe.sources, "target"], 9), {})
    model = build(config).train()
    without_dropout = build(config.model_copy(update={"source_dropout": None})).train()
    without_dropout.load_state_dict(model.state_dict())
    grid = config.images["image"]
    images = {"image": stack_images([np.full_like(blank_image(grid), 7)] * 6, blank_image(grid), grid.regions)}
    batch = collate({name: [[5, 6]] * 6 for name in config.texts}, [[6, 7]] * 6, images=images)
    torch.manual_seed(1)
    dropped = drop_sources(batch, 0.5)
    assert 0 in dropped.image("image").lengths
    torch.manual_seed(1)
    torch.testing.assert_close(training_loss(model, batch).objective, training_loss(without_dropout, dropped).objective)
