"""docs/parameters.md: it names every parameter, its programs run, and its statements hold."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from interlinear.batch import ImageInput, collate
from interlinear.config import ImageGrid, ImageNetwork, RecurrentConfig, TextVocabulary
from interlinear.losses.training_loss import training_loss
from interlinear.models.memory import SUMMARY
from interlinear.models.model import Model, build
from tests.interlinear.systems import every_system, model_of

PAGE = (Path(__file__).parents[3] / "docs" / "parameters.md").read_text(encoding="utf-8")
WORDS = TextVocabulary(vocabulary=9)
IMAGE = ImageGrid(rows=1, columns=2, features=4)
SEEN = ImageGrid(rows=1, columns=1, features=128, network=ImageNetwork(size=16))
VARIANTS: dict[str, dict[str, Any]] = {
    "concat, coverage": {"combination": "concat", "coverage": "neural", "cell": "gru"},
    "flat, coverage, sentinel": {"combination": "flat", "coverage": "linguistic", "sentinel": True, "image_words": 0.5},
    "hierarchical, sentinel": {"combination": "hierarchical", "sentinel": True, "decoder": "conditional"},
    "the paper's gru": {"cell": "gru", "gru": "paper", "layers": 2, "encoder_stacks": "interleaved"},
    "dropout of states": {"state_dropout": 0.2, "layers": 2},
}


def model_with(sources: dict[str, TextVocabulary | ImageGrid], **chosen: Any) -> Model:
    torch.manual_seed(4)
    sizes = {"embedding": 6, "hidden": 5, "initialization": "uniform", "initialization_scale": 0.9}
    return build(RecurrentConfig(**{**sizes, **chosen}, sources=sources, target=WORDS)).double().eval()


@cache
def names() -> re.Pattern[str]:
    """Every name in the page's tables, as a pattern: L, S and D stand for numbers, K and the sources' names for
    names."""
    found: list[str] = []
    for row in re.findall(r"^\| (`[^|]*?) \|", PAGE, re.M):
        for name in re.findall(r"`([^`]+)`", row):
            if name.startswith("."):  # replaces the last part of the preceding name
                head, first = found[-1], name[1:].split(".")[0]
                kept = head[: head.index(f".{first}.")] if f".{first}." in head else head.rpartition(".")[0]
                name = kept + name
            if "." in name:
                found.append(name)
    found.append("encoders.source.recurrent.forwards.S.layers.D. ...")
    patterns = []
    for name in found:
        pattern = re.escape(name.removesuffix(" ..."))
        pattern = re.sub(r"(?<=\.)[LS](?=\\|$)", r"\\d+", pattern)
        pattern = re.sub(r"D$|(?<=layers\\\.)D", r"\\d+", pattern)
        pattern = re.sub(r"(?<=\.)(K|source|image)(?=\\|$)", r"\\w+", pattern)
        patterns.append(pattern + ".+" if name.endswith("...") else pattern)
    return re.compile("|".join(patterns))


def is_named(parameter: str) -> bool:
    return names().fullmatch(parameter) is not None


@every_system
def test_every_parameter_of_a_system_is_on_the_page(system: str) -> None:
    assert [name for name, _ in model_of(system).named_parameters() if not is_named(name)] == []


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
def test_every_parameter_of_a_combination_is_on_the_page(variant: dict[str, Any]) -> None:
    sources = {"source": WORDS} if "combination" not in variant else {"source": WORDS, "mt": WORDS, "image": SEEN}
    assert [name for name, _ in model_with(sources, **variant).named_parameters() if not is_named(name)] == []
    assert not is_named("decoder.somewhere.weight") and not is_named("decoder.cells.0.weight")


def test_the_pages_programs_run_in_order() -> None:
    said: dict[str, Any] = {}
    torch.manual_seed(2)
    programs = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    assert len(programs) == 4
    for program in programs:
        exec(program, said)
    assert said["log_p"].shape == (2, 1, 3, 50)
    log_p = said["model"].log_probabilities(said["readout"])
    torch.testing.assert_close(log_p, said["log_p"][:, :, 1], rtol=0, atol=1e-12)
    assert said["attention_weights"].weights["source", "attention"].shape == (2, 1, 3, 4)
    assert not said["attention_weights"].weights["image", "attention"][1].any()
    other = said["regions"].clone()
    other[1] = 9
    images = {"image": said["ImageInput"](other, said["image"].lengths_B)}
    again = training_loss(said["model"], collate({"source": [[5, 6, 7], [8, 9]]}, [[10, 11], [12]], images=images))
    assert torch.equal(again.nats, training_loss(said["model"], said["batch"]).nats)
    assert len(said["found"]) == 2 and said["best"].ids and said["found"][0].attention_weights is not None


@pytest.mark.parametrize(("tied", "left"), [("output", "target_words"), ("all", "encoders.source.words")])
def test_a_tied_matrix_is_stored_once(tied: str, left: str) -> None:
    model = model_with({"source": WORDS, "mt": WORDS}, combination="flat", tie_embeddings=tied)
    names = dict(model.named_parameters())
    shared = {"encoders.source.words.weight", "encoders.mt.words.weight", "target_words.weight", "output.weight"}
    assert names[f"{left}.weight"] is model.output.weight
    apart = {"encoders.source.words.weight", "encoders.mt.words.weight"} if tied == "output" else set()
    assert shared & names.keys() == {f"{left}.weight"} | apart


def test_image_word_loss_in_evaluation_skips_the_end_and_unknown_words() -> None:
    model = model_with({"source": WORDS, "image": IMAGE}, combination="concat", image_words=0.5)
    texts, image = {"source": [[5], [6]]}, torch.ones(2, 2, 4).double()

    def extra(targets: list[list[int]], regions: list[int]) -> float:
        batch = collate(texts, targets, images={"image": ImageInput(image, torch.tensor(regions))})
        loss = training_loss(model, batch)
        return float((loss.objective - loss.nats).detach())

    assert extra([[7, 8], [7]], [2, 2]) > 0
    assert extra([[1], [1, 1]], [2, 2]) == extra([[7, 8], [7]], [0, 0]) == 0
    assert extra([[7, 8], [7]], [2, 0]) == pytest.approx(extra([[7, 8, 1], [1]], [2, 2]))
    plain = model_with({"source": WORDS})
    loss = training_loss(plain, collate(texts, [[7, 8], [7]]))
    assert loss.objective == loss.nats


def test_contexts_and_summaries_follow_the_order_of_the_recipes_sources() -> None:
    """With zeros in the columns of one source, that source has no effect."""
    for order in (["source", "mt"], ["mt", "source"]):
        model = model_with(dict.fromkeys(order, WORDS), combination="concat", first_state="zero")
        d = model.config.annotation
        for place, silenced in enumerate(order):
            cell, readout = (
                model.get_parameter("decoder.cells.0.gates.weight"),
                model.get_parameter("decoder.readout.weight"),
            )
            kept = cell.detach().clone(), readout.detach().clone()
            with torch.no_grad():
                cell[:, place * d : place * d + d] = 0
                readout[:, 6 + 5 + place * d : 6 + 5 + place * d + d] = 0
            texts = {name: [[5, 6, 7]] for name in order}
            one, other = ({**texts, silenced: [ids]} for ids in ([5, 6], [8, 7, 4]))
            assert (
                training_loss(model, collate(one, [[7, 8]])).nats == training_loss(model, collate(other, [[7, 8]])).nats
            )
            with torch.no_grad():
                cell.copy_(kept[0])
                readout.copy_(kept[1])
            assert (
                training_loss(model, collate(one, [[7, 8]])).nats != training_loss(model, collate(other, [[7, 8]])).nats
            )


def test_one_source_with_a_combination_keeps_tanh() -> None:
    for count in (1, 2):
        sources = {"source": WORDS, "mt": WORDS} if count == 2 else {"source": WORDS}
        model = model_with(sources, combination="hierarchical", first_state="ends")
        memory = model.encode(collate({name: [[5, 6]] for name in sources}))
        first = model.get_parameter("decoder.first.0.weight") @ memory.summaries[SUMMARY][0]
        first = first + model.get_parameter("decoder.first.0.bias")
        ours = model.start(memory).leaves["hidden.0"][0, 0]
        torch.testing.assert_close(ours, torch.tanh(first) if count == 1 else first, rtol=0, atol=1e-12)


def test_the_gate_is_averaged_over_its_dimensions_and_layers() -> None:
    model = model_with({"source": WORDS}, word_attention=True, contextual_gates=True, layers=2)
    batch = collate({"source": [[5, 6, 7]]}, [[7, 8]])
    _, attention_weights = model.unroll(model.encode(batch), batch.target_BL[:, None])
    assert [tuple(gate.shape) for gate in attention_weights.gates] == [(1, 1, 3, 5)] * 2
    gate = (attention_weights.gates[0].mean(-1) + attention_weights.gates[1].mean(-1)) / 2
    attention, words = (
        attention_weights.weights["source", "attention"],
        attention_weights.weights["source", "word_attention"],
    )
    expected = gate[..., None] * attention + (1 - gate[..., None]) * words
    torch.testing.assert_close(attention_weights.gated["source", "gated"], expected, rtol=0, atol=1e-12)


def test_the_state_of_a_hypothesis_is_as_documented() -> None:
    model = model_with(
        {"source": WORDS}, cell="lstm", decoder="luong", layers=2, writing="shared", coverage="neural", coverage_size=3
    )
    memory = model.encode(collate({"source": [[5, 6, 7], [5]]}))
    start = model.start(memory)
    assert {name: tuple(leaf.shape) for name, leaf in start.leaves.items()} == {
        "hidden.0": (2, 1, 5), "memory.0": (2, 1, 5), "hidden.1": (2, 1, 5), "memory.1": (2, 1, 5),
        "mixture": (2, 1, 5), "written": (2, 1, 4, 10), "coverage.source": (2, 1, 4, 3),
    }  # fmt: skip
    assert torch.equal(start.leaves["written"][:, 0], memory.views["source.attention"].values_BTD)
    assert not start.leaves["mixture"].any() and not start.leaves["coverage.source"].any()
    state, readout, seen = model.step(memory, start, torch.full((2, 1), 2))
    assert torch.equal(state.leaves["mixture"], readout)
    weights = seen.weights["source", "attention"][..., None]
    forget, update = (
        torch.sigmoid(state.leaves["hidden.1"] @ model.get_parameter(f"decoder.writing.{part}.weight").T)[:, :, None]
        for part in ("forget", "update")
    )
    before = start.leaves["written"]
    expected = before * (1 - weights * forget) + weights * update
    torch.testing.assert_close(state.leaves["written"], expected, rtol=0, atol=1e-12)


def test_the_first_cell_continues_from_the_first_layers_state_and_memory() -> None:
    model = model_with({"source": WORDS}, decoder="conditional", first_state="zero")
    memory = model.encode(collate({"source": [[5, 6, 7]]}))
    start = model.start(memory)
    w = dict(model.named_parameters())

    def lstm(gates: torch.Tensor, memory: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        i, f, g, o = gates.chunk(4, -1)
        memory = torch.sigmoid(f) * memory + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(memory), memory

    state, _, _ = model.step(memory, start, torch.tensor([[2]]))
    s, c = state.leaves["hidden.0"], state.leaves["memory.0"]
    word = w["target_words.weight"][6]
    given = w["decoder.opening.words.weight"] @ word + w["decoder.opening.words.bias"]
    s, c = lstm(given + s @ w["decoder.opening.gates.weight"].T, c)
    energy = (
        torch.tanh(s @ w["decoder.attention.query.weight"].T + memory.views["source.attention"].keys_BTA)
        @ w["decoder.attention.energy.weight"][0]
    )
    context = torch.softmax(energy, -1) @ memory.views["source.attention"].values_BTD[0]
    s, c = lstm(
        w["decoder.cells.0.bias"] + torch.cat([context[:, None], s], -1) @ w["decoder.cells.0.gates.weight"].T, c
    )
    after, _, _ = model.step(memory, state, torch.tensor([[6]]))
    torch.testing.assert_close(after.leaves["hidden.0"], s, rtol=0, atol=1e-12)
    torch.testing.assert_close(after.leaves["memory.0"], c, rtol=0, atol=1e-12)
