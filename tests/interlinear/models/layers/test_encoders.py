"""The encoder without packing, whose shapes do not depend on the lengths, equals the packed one."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from interlinear.batch import TextInput
from interlinear.config import RecurrentArchitecture
from interlinear.models.recurrent.encoders import BidirectionalEncoder, last_memory, run_layers, run_with_last_states

LENGTHS = [3, 1, 7, 2, 6, 7, 4, 5]
KINDS = {
    "LSTM": {"cell": "lstm"},
    "GRU": {"cell": "gru"},
    "the GRU of Wu et al.": {"cell": "gru", "gru": "paper"},
    "LSTM with layer normalisation": {"cell": "lstm", "layer_norm": True},
}
STACKS: dict[str, dict[str, Any]] = {
    "one layer": {"layers": 1},
    "two layers": {"layers": 2, "encoder_stacks": "separate"},
    "two interleaved layers": {"layers": 2, "encoder_stacks": "interleaved"},
}


def encoder_of(**config: Any) -> BidirectionalEncoder:
    """In float64, with weights far from zero."""
    torch.manual_seed(3)
    encoder = BidirectionalEncoder(RecurrentArchitecture(embedding=5, hidden=4, dropout=0.0, **config)).double()
    for parameter in encoder.parameters():
        nn.init.normal_(parameter, std=0.8)
    return encoder.train()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stacks", STACKS)
def test_annotations_ends_and_gradients_equal_those_of_packed_sequences(kind: str, stacks: str) -> None:
    encoder = encoder_of(**KINDS[kind], **STACKS[stacks], first_state="sum")
    words_BTE = torch.randn(len(LENGTHS), max(LENGTHS) + 1, 5, dtype=torch.float64, requires_grad=True)
    lengths_B = torch.tensor(LENGTHS)
    ids_BT = torch.zeros(words_BTE.shape[:2], dtype=torch.long)
    padding_BT1 = (torch.arange(ids_BT.shape[1]) >= lengths_B[:, None])[:, :, None]
    found = []
    for text in (TextInput(ids_BT, lengths_B), TextInput(ids_BT, lengths_B, None)):
        output = encoder(words_BTE, text)
        tensors = [output.states_BTD.masked_fill(padding_BT1, 0.0), output.last_forward_BH, output.first_backward_BH]
        assert output.last_BS is not None
        tensors.append(output.last_BS)
        total = sum((tensor * torch.arange(1.0, 1.0 + tensor.numel()).view_as(tensor)).sum() for tensor in tensors)
        assert isinstance(total, Tensor)
        found.append([*tensors, *torch.autograd.grad(total, [words_BTE, *encoder.parameters()])])
    packed, unpacked = found
    torch.testing.assert_close(unpacked, packed, rtol=1e-10, atol=1e-10)


def test_the_memory_of_a_long_sequence_is_exact_in_fp32() -> None:
    """Forget gates that stay open, that close, and that mix, over 200 words."""
    torch.manual_seed(3)
    lengths_B = torch.tensor([200, 150, 3])
    text = TextInput(torch.zeros(3, 200, dtype=torch.long), lengths_B)
    for forget_bias, scale in ((6.0, 0.3), (-6.0, 0.3), (0.0, 3.0)):
        lstm = nn.LSTM(6, 8, batch_first=True)
        for parameter in lstm.parameters():
            nn.init.normal_(parameter, std=scale)
        nn.init.constant_(lstm.bias_ih_l0[8:16].detach(), forget_bias)
        inputs_BTI = torch.randn(3, 200, 6)
        for dtype in (torch.float32, torch.float64):
            lstm, inputs_BTI = lstm.to(dtype), inputs_BTI.to(dtype)
            states_BTH, _ = lstm(inputs_BTI)
            _, (_, expected_BH) = run_with_last_states(lstm, inputs_BTI, text)
            found_BH = last_memory(inputs_BTI, states_BTH, lengths_B, list(lstm.parameters()))
            tolerance = 1e-12 if dtype == torch.float64 else 1e-4
            torch.testing.assert_close(found_BH, expected_BH, rtol=tolerance, atol=tolerance)


def test_dropout_between_unpacked_layers_is_that_of_torch() -> None:
    """In training only."""
    torch.manual_seed(0)
    gru = nn.GRU(4, 4, num_layers=2, dropout=0.5, batch_first=True)
    inputs_BTI = torch.randn(64, 9, 4)
    torch.manual_seed(1)
    expected_BTH, _ = gru(inputs_BTI)  # with sequences of one length, torch draws the same numbers
    torch.manual_seed(1)
    torch.testing.assert_close(run_layers(gru, inputs_BTI)[-1][1], expected_BTH)
    gru.eval()
    torch.testing.assert_close(run_layers(gru, inputs_BTI)[-1][1], gru(inputs_BTI)[0])
