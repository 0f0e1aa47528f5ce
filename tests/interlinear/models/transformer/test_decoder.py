"""A decoder's steps equal one pass over known words, whatever search does with its state meanwhile."""

import random
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from interlinear.batch import collate
from interlinear.models.attention_weights import AttentionWeights
from interlinear.models.memory import Memory
from interlinear.models.state import WRITTEN, State
from interlinear.search.state import concatenate_memories
from tests.interlinear.models.transformer.systems import KINDS, SIZE, System, batch_of, system, words

SENTENCES = [[5, 9, 6, 11], [7, 8], [10, 10, 5, 6, 6]]
every_kind = pytest.mark.parametrize("kind", KINDS)


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@every_kind
def test_steps_equal_one_pass(kind: str) -> None:
    made = system(kind)
    memory = made.encode(batch_of(made, SENTENCES))
    words_BKLE = words(3, 2, 6)
    readouts, seen = made.decoder.unroll(memory, words_BKLE, attention=True)
    state = made.start(memory, 2, 9)
    for t, words_BKE in enumerate(words_BKLE.unbind(2)):
        state, readout, weights = made.decoder.step(memory, state, words_BKE)
        close(readout, readouts[:, :, t])
        assert (
            weights.weights.keys() == seen.weights.keys()
            and weights.source_weights.keys() == seen.source_weights.keys()
        )
        for name, own in weights.weights.items():
            close(own, seen.weights[name][:, :, t])
        for name, own in weights.source_weights.items():
            close(own, seen.source_weights[name][:, :, t])
    assert not made.decoder.unroll(memory, words_BKLE)[1].weights


@pytest.mark.parametrize("kind", ["transformer", "ssru"])
@torch.inference_mode()
def test_a_state_that_is_reordered_a_thousand_times_stays_right(kind: str) -> None:
    """Hypotheses are selected with repetition, sentences leave and enter, tables are padded and trimmed; what every
    hypothesis has read is kept beside it, and read again in one pass at the end."""
    draw, made = random.Random(1), system(kind, layers=1)
    torch.manual_seed(1)
    rows, width, longest = 3, 4, 24
    memory = made.encode(batch_of(made, SENTENCES))
    state = made.start(memory, width, longest)
    history: list[list[list[Tensor]]] = [[[] for _ in range(width)] for _ in range(rows)]
    for _ in range(1000):
        leaving = {row for row in range(rows) if len(history[row][0]) == longest or draw.random() < 0.02}
        if leaving:
            for row in leaving:
                check(made, memory, state, history[row], row)
            entering = made.encode(batch_of(made, draw.sample(SENTENCES, rows)))
            index = torch.tensor([rows + row if row in leaving else row for row in range(rows)])
            both = [each.resize(dict.fromkeys(made.encoders, 6)) for each in (memory, entering)]
            memory = concatenate_memories(*both).map(lambda tensor, index=index: tensor.index_select(0, index))
            fresh = made.start(entering, width, longest).leaves
            leaves = {n: torch.cat([leaf, fresh[n]]).index_select(0, index) for n, leaf in state.leaves.items()}
            state = replace(state, leaves=leaves)
            history = [[[] for _ in range(width)] if row in leaving else history[row] for row in range(rows)]
        if draw.random() < 0.5:
            words_BKE = words(rows, width)
            state, *_ = made.decoder.step(memory, state, words_BKE)
            history = [[[*history[b][k], words_BKE[b, k]] for k in range(width)] for b in range(rows)]
        parents = [[draw.randrange(width) for _ in range(width)] for _ in range(rows)]
        flat = torch.tensor([row * width + parent for row, chosen in enumerate(parents) for parent in chosen])
        state = state.reorder(flat, width)
        history = [[history[row][parent] for parent in chosen] for row, chosen in enumerate(parents)]
        used = max(len(row[0]) for row in history)
        state = state.resize({WRITTEN: draw.randint(used, longest)}).resize({WRITTEN: longest})
    for row in range(rows):
        check(made, memory, state, history[row], row)


def rows_of(memory: Memory, rows: list[int]) -> Memory:
    return memory.map(lambda tensor: tensor[rows])


def check(made: System, memory: Memory, state: State, history: list[list[Tensor]], row: int) -> None:
    """Assert that the next word of each hypothesis of a row is read as after its own history."""
    words_KE = words(len(history))
    one_row = state.map(lambda leaf: leaf[row : row + 1]).resize({WRITTEN: 40})
    _, found, _ = made.decoder.step(rows_of(memory, [row]), one_row, words_KE[None])
    for k, before in enumerate(history):
        words_LE = torch.stack([*before, words_KE[k]])
        readouts, _ = made.decoder.unroll(rows_of(memory, [row]), words_LE[None, None])
        close(found[0, k], readouts[0, 0, -1])


@every_kind
def test_padding_neighbours_and_other_hypotheses_change_nothing(kind: str) -> None:
    made = system(kind)
    words_BKLE = words(3, 2, 6)
    memory = made.encode(batch_of(made, SENTENCES)).resize(dict.fromkeys(made.encoders, 9))
    readouts, seen = made.decoder.unroll(memory, words_BKLE, attention=True)
    for row in range(3):
        lengths = {source: int(memory.lengths_B(source)[row]) for source in made.encoders}
        texts = batch_of(made, SENTENCES)
        ids = {source: texts.text(source).ids_BT[row, : lengths[source] - 1].tolist() for source in lengths}
        alone = made.encode(collate({source: [own] for source, own in ids.items()}))
        for k in range(2):
            own, weights = made.decoder.unroll(alone, words_BKLE[row : row + 1, k : k + 1, :4], attention=True)
            close(own[0, 0], readouts[row, k, :4])
            for (source, kind), each in weights.weights.items():
                close(each[0, 0], seen.weights[source, kind][row, k, :4, : lengths[source]])
                assert (seen.weights[source, kind][row, ..., lengths[source] :] == 0).all()


@every_kind
def test_an_absent_source_is_finite_with_gradients_and_has_no_weight(kind: str) -> None:
    made = system(kind)
    memory = made.encode(batch_of(made, [[5, 9], None, None]))
    readouts, seen = made.decoder.unroll(memory, words(3, 2, 4), attention=True)
    for module in (made.encoders, made.decoder):
        for gradient in torch.autograd.grad(
            readouts.sum(), list(module.parameters()), retain_graph=True, allow_unused=True
        ):
            assert gradient is None or gradient.isfinite().all()
    assert readouts.isfinite().all()
    for (source, _), weights in seen.weights.items():
        absent = memory.lengths_B(source) == 0
        assert (weights[absent] == 0).all() and (weights[~absent].sum(-1) > 0.1).all()
    for source, weights in seen.source_weights.items():
        assert (weights[memory.lengths_B(source) == 0] == 0).all()


@pytest.mark.parametrize("kind", ["parallel", "flat", "hierarchical"])
def test_the_states_of_an_absent_source_do_not_matter(kind: str) -> None:
    made = system(kind)
    memory = made.encode(batch_of(made, [[5, 9], None]))
    other = memory.map(lambda tensor: tensor)
    absent = {name: view.padding_BT.all(-1)[:, None, None] for name, view in memory.views.items()}
    other = Memory(
        {
            name: replace(
                view, keys_BTA=view.keys_BTA + absent[name] * 3.0, values_BTD=view.values_BTD - absent[name] * 2.0
            )
            for name, view in memory.views.items()
        }
    )
    words_BKLE = words(2, 1, 3)
    close(made.decoder.unroll(other, words_BKLE)[0], made.decoder.unroll(memory, words_BKLE)[0])


@pytest.mark.parametrize("layer", [0, 1, -1])
def test_the_weights_are_those_of_a_layer_and_of_its_head_or_the_mean(layer: int) -> None:
    def of_head(head: int | None) -> Tensor:
        made = system("transformer", aligned_layer=layer, aligned_head=head)
        torch.manual_seed(0)
        memory = made.encode(batch_of(made, SENTENCES))
        return made.decoder.unroll(memory, words(3, 1, 4), attention=True)[1].attention

    heads = [of_head(0), of_head(1)]
    close(of_head(None), (heads[0] + heads[1]) / 2)
    assert (heads[0] - heads[1]).abs().max() > 0.1
    torch.manual_seed(0)
    others = {i: system("transformer", aligned_layer=i) for i in (0, 1)}
    found = {i: weights_of(other) for i, other in others.items()}
    close(of_head(None), found[range(2)[layer]])
    assert (found[0] - found[1]).abs().max() > 0.01


def weights_of(made: System) -> Tensor:
    torch.manual_seed(0)
    memory = made.encode(batch_of(made, SENTENCES))
    return made.decoder.unroll(memory, words(3, 1, 4), attention=True)[1].attention


def test_the_weights_of_the_whole_target_read_later_words_and_no_padding() -> None:
    made = system("transformer")
    memory, words_BKLE = made.encode(batch_of(made, SENTENCES)), words(3, 1, 6)
    padding_BKL = torch.arange(6) >= torch.tensor([6, 4, 5])[:, None, None]

    def seen(words_BKLE: Tensor) -> AttentionWeights:
        return made.decoder.full_context_weights(memory, words_BKLE, padding_BKL)

    weights = seen(words_BKLE).attention
    changed_BKLE = words_BKLE.clone()
    changed_BKLE[1, 0, 4:] = words(2)  # padding of the second sentence
    close(seen(changed_BKLE).attention[:, :, :4], weights[:, :, :4])
    changed_BKLE[1, 0, 3] = words(1)[0]
    assert (seen(changed_BKLE).attention[1, 0, 0] - weights[1, 0, 0]).abs().max() > 1e-3
    causal = made.decoder.unroll(memory, words_BKLE, attention=True)[1].attention
    close(weights.sum(-1), causal.sum(-1))
    assert (causal[:, :, 0] - weights[:, :, 0]).abs().max() > 1e-3
    with pytest.raises(ValueError, match="no context of the whole target"):
        system("ssru").decoder.full_context_weights(memory, words_BKLE, padding_BKL)


def test_all_hypotheses_of_a_sentence_share_its_keys() -> None:
    made = system("transformer")
    memory = made.encode(batch_of(made, SENTENCES))
    keys = {view.keys_BTA.shape for view in memory.views.values()}
    assert keys == {(3, 6, SIZE)} and len(memory.views) == 2
