"""Several sources (Libovicky and Helcl, ACL 2017): the talk's equations as loops over sources and their states.

Two texts and an image of four regions; each sentence lacks other sources. The sentinel is that of Lu et al. 2016,
equations 9 and 10.
"""

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from interlinear.batch import Batch, ImageInput, collate
from interlinear.config import ImageGrid, RecurrentConfig, TextVocabulary
from interlinear.losses.training_loss import training_loss
from interlinear.models.model import Model, build
from interlinear.text import END, PAD
from tests.papers.agreement import close, stepping_agrees
from tests.papers.literal import (
    Weights,
    additive_energy,
    cell,
    log_softmax_output,
    one_way,
    sigma,
    softmax,
    weighted,
    word_before,
    zeros,
)  # fmt: skip

SOURCES: dict[str, list[list[int] | None]] = {
    "source": [[5, 9, 6, 11], [7, 8], None, [10, 6]],
    "mt": [[6, 7, 7], None, [5, 5, 9, 10], [8]],
}
IMAGES = [True, True, True, False]
TARGETS = [[6, 7], [8, 5, 9, 11], [10], [7, 7, 6]]
REGIONS, FEATURES = 4, 3


def features() -> Tensor:
    return torch.randn(len(TARGETS), REGIONS, FEATURES, generator=torch.Generator().manual_seed(5)).double()


def small(**variant: Any) -> Model:
    """A tiny model of three sources in float64, every weight far from zero."""
    torch.manual_seed(3)
    words = TextVocabulary(vocabulary=12)
    sizes: dict[str, Any] = {
        "cell": "gru", "decoder": "conditional", "first_state": "ends", "embedding": 4, "hidden": 3,
        "attention_size": 5, "initialization": "uniform", "initialization_scale": 0.8,
    }  # fmt: skip
    sources = {"source": words, "mt": words, "image": ImageGrid(rows=2, columns=2, features=FEATURES)}
    chosen = {name: sources[name] for name in variant.pop("sources", sources)}
    return build(RecurrentConfig(sources=chosen, target=words, **{**sizes, **variant})).double().eval()


def batch_of(model: Model, rows: list[int]) -> Batch:
    """A batch of some of the sentences."""
    texts = {name: [SOURCES[name][row] for row in rows] for name in model.config.texts}
    lengths = torch.tensor([REGIONS * IMAGES[row] for row in rows])
    images = {name: ImageInput(features()[rows], lengths) for name in model.config.images}
    return collate(texts, [TARGETS[row] for row in rows], images=images)


def attended(w: Weights, config: Any, row: int) -> dict[str, tuple[list[Tensor], Tensor]]:
    """States h^(k) and the final state of each source that a sentence has."""
    found = {}
    for name in config.sources:
        if name in config.images:
            if IMAGES[row]:
                W, b = w[f"encoders.{name}.projection.weight"], w[f"encoders.{name}.projection.bias"]
                h = [W @ region + b for region in features()[row]]
                found[name] = (h, sum(h) / len(h))
        elif (words := SOURCES[name][row]) is not None:
            own = {key.replace(f"encoders.{name}.", "encoders.source."): value for key, value in w.items()
                   if key.startswith(f"encoders.{name}.")}  # fmt: skip
            x = [own["encoders.source.words.weight"][i] for i in [*words, END]]
            ahead, _ = one_way(own, config, "forwards", 0, 1, x)
            back, _ = one_way(own, config, "backwards", 0, 1, x[::-1])
            back = back[::-1]
            h = [torch.cat([f, b]) for f, b in zip(ahead, back, strict=True)]
            found[name] = (h, torch.cat([ahead[-1], back[0]]))
    return found


def sizes_of_summaries(config: Any) -> dict[str, int]:
    return dict.fromkeys(config.sources, 2 * config.hidden)


def psi(w: Weights, e_y: Tensor, before: Tensor, s: Tensor) -> Tensor:
    """The sentinel: g = sigma(W_x x + W_h h_{t-1}), psi = g o s  (Lu et al. 2016, 9 and 10)."""
    name = "decoder.combination.sentinel"
    g = sigma(w[f"{name}.words.weight"] @ e_y + w[f"{name}.words.bias"] + w[f"{name}.gate.weight"] @ before)
    return g * s


def combined(
    w: Weights, config: Any, s: Tensor, e_y: Tensor, before: Tensor, h: Mapping[str, list[Tensor]]
) -> tuple[Tensor, dict[str, list[Tensor]], dict[str, Tensor]]:
    """c_i, alpha_ij^(k) and the weight of each source (and of the sentinel), of one step."""
    at = "decoder.combination"
    if config.combination == "concat":
        alpha = {k: softmax(additive_energy(w, f"{at}.attentions.{k}", s, h[k])) for k in h}
        parts = [weighted(alpha[k], h[k]) if k in h else zeros(2 * config.hidden) for k in config.sources]
        return torch.cat(parts), alpha, {}
    shared = config.share_projections

    def project(part: str, k: str, x: Tensor) -> Tensor:
        """U_a^(k), U_b^(k) for keys, U_c^(k) for values, with their bias."""
        name = f"{at}.{part}.{k}" if k != "sentinel" else f"{at}.sentinel_{part.removesuffix('s')}"
        matrix = f"{name}.weight" if config.combination == "flat" and k != "sentinel" else f"{name}.map.weight"
        return w[matrix] @ x + w[f"{name}.bias"]

    U_a, U_c = "keys", "keys" if shared else "values"
    W, v = w[f"{at}.query.weight"], w[f"{at}.energy.weight"][0]
    if config.combination == "flat":
        # e_ij^(k) = v_a . tanh(W_a s_i + U_a^(k) h_j^(k)), one softmax over all j of all k
        places = [(k, h_j) for k in h for h_j in h[k]]
        if config.sentinel:
            places.append(("sentinel", psi(w, e_y, before, s)))
        a = softmax([v @ torch.tanh(W @ s + project(U_a, k, h_j)) for k, h_j in places])
        c = sum(a_j * project(U_c, k, h_j) for a_j, (k, h_j) in zip(a, places, strict=True))
        alpha = {k: [a_j for a_j, (of, _) in zip(a, places, strict=True) if of == k] for k in h}
        between = {k: sum(a_j for a_j, (of, _) in zip(a, places, strict=True) if of == k) for k, _ in places}
        return c, alpha, between
    # hierarchical: c_i^(k) by vanilla attention, then e_i^(k) = v_b . tanh(W_b s_i + U_b^(k) c_i^(k))
    alpha = {k: softmax(additive_energy(w, f"{at}.attentions.{k}", s, h[k])) for k in h}
    contexts = {k: weighted(alpha[k], h[k]) for k in h}
    if config.sentinel:
        contexts["sentinel"] = psi(w, e_y, before, s)
    beta = softmax([v @ torch.tanh(W @ s + project(U_a, k, c_k)) for k, c_k in contexts.items()])
    c = sum(b_k * project(U_c, k, c_k) for b_k, (k, c_k) in zip(beta, contexts.items(), strict=True))
    return c, alpha, dict(zip(contexts, beta, strict=True))


def transcription(w: Weights, config: Any, row: int, y: list[int]) -> Any:
    """log p(y_t | y_<t, sources) and the attention weights of one sentence."""
    found = attended(w, config, row)
    h = {k: states for k, (states, _) in found.items()}
    finals = [found[k][1] if k in found else zeros(n) for k, n in sizes_of_summaries(config).items()]
    s = w["decoder.first.0.weight"] @ torch.cat(finals) + w["decoder.first.0.bias"]
    s = torch.tanh(s) if len(config.sources) == 1 else s
    log_p, attention_weights = [], []
    for t in range(len(y)):
        e_y, before = word_before(w, config, y, t), s
        s_i, _ = cell(w, config, "decoder.opening", e_y, zeros(0), s, zeros(0))
        c, alpha, between = combined(w, config, s_i, e_y, before, h)
        s, _ = cell(w, config, "decoder.cells.0", None, c, s_i, zeros(0))
        t_i = torch.tanh(w["decoder.readout.weight"] @ torch.cat([e_y, s, c]) + w["decoder.readout.bias"])
        log_p.append(log_softmax_output(w, t_i))
        attention_weights.append((alpha, between))
    return torch.stack(log_p), attention_weights


VARIANTS: dict[str, dict[str, Any]] = {
    "concat": {"combination": "concat"},
    "flat": {"combination": "flat", "combination_size": 4},
    "flat, shared": {"combination": "flat", "combination_size": 5, "share_projections": True},
    "flat, sentinel": {"combination": "flat", "combination_size": 4, "sentinel": True},
    "flat, both": {"combination": "flat", "combination_size": 5, "share_projections": True, "sentinel": True},
    "hierarchical": {"combination": "hierarchical", "combination_size": 4},
    "hierarchical, shared": {"combination": "hierarchical", "combination_size": 5, "share_projections": True},
    "hierarchical, sentinel": {"combination": "hierarchical", "combination_size": 4, "sentinel": True},
    "hierarchical, both": {
        "combination": "hierarchical", "combination_size": 5, "share_projections": True, "sentinel": True,
    },
    "post-editing, flat": {"combination": "flat", "sources": ["source", "mt"]},
    "post-editing, hierarchical, the paper's gru": {
        "combination": "hierarchical", "sources": ["source", "mt"], "gru": "paper",
    },
    "image and text": {"combination": "hierarchical", "sources": ["source", "image"]},
}  # fmt: skip
each = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())


def rows_of(model: Model) -> list[int]:
    """The sentences that have at least one of the model's sources."""
    there = {name: [row is not None for row in rows] for name, rows in SOURCES.items()} | {"image": IMAGES}
    return [row for row in range(len(TARGETS)) if any(there[name][row] for name in model.config.sources)]


@each
def test_the_model_is_the_talks(variant: dict[str, Any]) -> None:
    """Outputs, attention weights, loss and gradients of a batch of sentences that lack different sources."""
    model = small(**variant)
    config, rows = model.config, rows_of(model)
    w = dict(model.named_parameters())
    batch = batch_of(model, rows)
    assert batch.target_BL is not None
    readouts, attention_weights = model.unroll(model.encode(batch), batch.target_BL[:, None])
    log_p = model.log_probabilities(readouts)[:, 0]
    theirs_loss: Tensor | float = 0.0
    for i, row in enumerate(rows):
        y = [*TARGETS[row], END]
        expected, steps = transcription(w, config, row, y)
        close(log_p[i, : len(y)], expected, "log p")
        theirs_loss = theirs_loss - sum(expected[t, word] for t, word in enumerate(y))
        for t, (alpha, between) in enumerate(steps):
            for name in config.sources:
                ours = attention_weights.weights[name, "attention"][i, 0, t]
                theirs = torch.stack(alpha[name]) if name in alpha else zeros(0)
                close(ours[: len(theirs)], theirs, f"weights of {name}")
                assert (ours[len(theirs) :] == 0).all()
            assert (
                attention_weights.source_weights.keys() == {*config.sources, *["sentinel"][: config.sentinel]}
            ) == bool(between)
            for name, weight in attention_weights.source_weights.items():
                close(weight[i, 0, t], torch.as_tensor(between.get(name, 0.0)).double(), f"weight of {name} in all")
    loss = training_loss(model, batch)
    close(loss.objective, torch.as_tensor(theirs_loss), "loss")
    ours_gradients = torch.autograd.grad(loss.objective, list(w.values()))
    theirs_gradients = torch.autograd.grad(torch.as_tensor(theirs_loss), list(w.values()), allow_unused=True)
    for (name, parameter), mine, paper in zip(w.items(), ours_gradients, theirs_gradients, strict=True):
        gradient = torch.zeros_like(parameter) if paper is None else paper.clone()
        if name.endswith("words.weight"):
            gradient[PAD] = mine[PAD]  # padding's embedding is never used
        close(mine, gradient, f"gradient of {name}")


@each
def test_stepping_gives_what_teacher_forcing_gives(variant: dict[str, Any]) -> None:
    model = small(**variant)
    stepping_agrees(model, batch_of(model, rows_of(model)))


@each
def test_a_sentence_alone_equals_the_sentence_in_a_batch(variant: dict[str, Any]) -> None:
    """Whichever sources it lacks, and whichever the others have."""
    model = small(**variant)
    rows = rows_of(model)
    together = batch_of(model, rows)
    assert together.target_BL is not None
    readouts, attention_weights = model.unroll(model.encode(together), together.target_BL[:, None])
    for i, row in enumerate(rows):
        alone = batch_of(model, [row])
        assert alone.target_BL is not None
        own, own_looks = model.unroll(model.encode(alone), alone.target_BL[:, None])
        steps = len(TARGETS[row]) + 1
        close(readouts[i, :, :steps], own[0], "readouts")
        for key, weights in own_looks.weights.items():
            close(attention_weights.weights[key][i, :, :steps, : weights.shape[-1]], weights[0], "weights")
            total = sum(own_looks.weights[name, "attention"].sum(-1) for name in model.config.sources)
            assert (total > 0).all()


@each
def test_the_order_of_sources_does_not_matter(variant: dict[str, Any]) -> None:
    """Sources in another order, with their parameters, give the same output and permuted attention weights."""
    model = small(**copy.deepcopy(variant))
    names = list(model.config.sources)
    other = small(**{**variant, "sources": names[::-1]})
    weights = model.state_dict()
    annotation, n = 2 * model.config.hidden, len(names)
    blocks = list(range(n))[::-1]

    def permuted(columns: Tensor, start: int) -> Tensor:
        """Columns of each source's part, from `start` on, in the other order."""
        head, parts, tail = columns.split([start, n * annotation, columns.shape[1] - start - n * annotation], 1)
        return torch.cat([head, *(parts[:, b * annotation : (b + 1) * annotation] for b in blocks), tail], 1)

    weights["decoder.first.0.weight"] = permuted(weights["decoder.first.0.weight"], 0)
    if model.config.combination == "concat":  # contexts are concatenated: weights that read them have their columns
        weights["decoder.readout.weight"] = permuted(weights["decoder.readout.weight"], 4 + 3)
        for name in ("decoder.cells.0.gates.weight", "decoder.cells.0.candidate_inputs.weight"):
            weights[name] = permuted(weights[name], 0)
    other.load_state_dict(weights)
    rows = rows_of(model)
    batches = [batch_of(model, rows), batch_of(other, rows)]
    (ours, attention_weights), (theirs, their_looks) = (
        one.unroll(one.encode(batch), batch.target_BL[:, None])  # type: ignore[index]
        for one, batch in zip((model, other), batches, strict=True)
    )
    close(ours, theirs, "readouts")
    for key, weights_BKLT in attention_weights.weights.items():
        close(weights_BKLT, their_looks.weights[key], str(key))


@pytest.mark.parametrize("combination", ["flat", "hierarchical"])
def test_one_source_is_plain_attention_with_its_context_multiplied(combination: str) -> None:
    """Over one source both are plain attention whose context is U_c c + b."""
    plain = small(sources=["source"], combination="none")
    one = small(sources=["source"], combination=combination, combination_size=4)
    weights = plain.state_dict()
    U, b = torch.randn(4, 6).double(), torch.randn(4).double()
    own = one.state_dict()
    mine = {name: value for name, value in weights.items() if name in own}
    at = "decoder.combination"
    if combination == "flat":
        mine |= {
            f"{at}.query.weight": weights["decoder.attention.query.weight"],
            f"{at}.energy.weight": weights["decoder.attention.energy.weight"],
            f"{at}.keys.source.weight": weights["decoder.attention.key.weight"],
            f"{at}.keys.source.bias": weights["decoder.attention.key.bias"],
            f"{at}.values.source.weight": U, f"{at}.values.source.bias": b,
        }  # fmt: skip
    else:
        mine |= {
            f"{at}.attentions.source.{name.removeprefix('decoder.attention.')}": value
            for name, value in weights.items() if name.startswith("decoder.attention.")
        }  # fmt: skip
        mine |= {f"{at}.values.source.map.weight": U, f"{at}.values.source.bias": b}
        mine |= {name: own[name] for name in own if name.startswith((f"{at}.keys", f"{at}.query", f"{at}.energy"))}
    # weights that read the context read U c + b: W (U c + b) = (W U) c + W b
    read, gates, candidate = (torch.randn(4, 4).double(), torch.randn(6, 4).double(), torch.randn(3, 4).double())
    words, states = weights["decoder.readout.weight"][:, :4], weights["decoder.readout.weight"][:, 4:7]
    mine["decoder.readout.weight"] = torch.cat([words, states, read], 1)
    weights["decoder.readout.weight"] = torch.cat([words, states, read @ U], 1)
    weights["decoder.readout.bias"] = weights["decoder.readout.bias"] + read @ b
    recurrent = weights["decoder.cells.0.gates.weight"][:, 6:]
    mine["decoder.cells.0.gates.weight"] = torch.cat([gates, recurrent], 1)
    weights["decoder.cells.0.gates.weight"] = torch.cat([gates @ U, recurrent], 1)
    mine["decoder.cells.0.candidate_inputs.weight"] = candidate
    weights["decoder.cells.0.candidate_inputs.weight"] = candidate @ U
    weights["decoder.cells.0.bias"] = weights["decoder.cells.0.bias"] + torch.cat([gates @ b, candidate @ b])
    one.load_state_dict(mine)  # first, while these weights are still the plain model's
    plain.load_state_dict(weights)
    rows = [0, 1, 3]
    (ours, attention_weights), (theirs, their_looks) = (
        model.unroll(model.encode(batch), batch.target_BL[:, None])  # type: ignore[index]
        for model in (one, plain)
        for batch in [batch_of(model, rows)]
    )
    close(ours, theirs, "readouts")
    close(attention_weights.weights["source", "attention"], their_looks.weights["source", "attention"], "attention")


@pytest.mark.parametrize("combination", ["concat", "flat", "hierarchical"])
def test_the_image_word_loss(combination: str) -> None:
    """- weight * sum over words of log p(w | image), p(w | image) = 1/T sum_t softmax(W v_t + b)_w; v_t is read."""
    model = small(combination=combination, image_words=0.7, combination_size=4 if combination == "flat" else None)
    w = dict(model.named_parameters())
    batch = batch_of(model, list(range(len(TARGETS))))
    with_it = training_loss(model, batch)
    W, b = w["image_words.image.weight"], w["image_words.image.bias"]
    extra: Tensor | float = 0.0
    for row, y in enumerate(TARGETS):
        if not IMAGES[row]:
            continue
        regions, _ = attended(w, model.config, row)["image"]
        if combination == "flat":
            U, c = w["decoder.combination.values.image.weight"], w["decoder.combination.values.image.bias"]
            regions = [U @ h + c for h in regions]
        p = [torch.stack(softmax(list(W @ v + b))) for v in regions]
        extra = extra - 0.7 * sum(torch.log(sum(p_t[word] for p_t in p) / len(p)) for word in y)
    model.image_words = None
    words_alone = training_loss(model, batch)
    close(with_it.objective, words_alone.objective + extra, "loss")
    close(torch.as_tensor(with_it.nats), torch.as_tensor(words_alone.nats), "nats")
