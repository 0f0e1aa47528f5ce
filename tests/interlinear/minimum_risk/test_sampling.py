"""Sampling: outputs have the model's probabilities, end where they may, and contain words only."""

import itertools
import math

import pytest
import torch

from interlinear.batch import collate
from interlinear.losses import cross_entropy
from interlinear.minimum_risk.minimum_risk import draw, sample
from interlinear.text import BEGIN, END, PAD
from tests.interlinear.systems import model_of

LONGEST, DRAWN = 2, 20_000


def probabilities(model, ids: list[int], vocabulary: int) -> dict[tuple[int, ...], float]:
    """Every output of up to LONGEST words and its probability; an output of LONGEST words ends there."""
    words = [w for w in range(vocabulary) if w not in (PAD, BEGIN, END)]
    outputs = [o for n in range(LONGEST + 1) for o in itertools.product(words, repeat=n)]
    batch = collate({"source": [ids] * len(outputs)}, outputs)
    readouts, _ = model.unroll(model.encode(batch), batch.target_BL[:, None])
    p = model.log_probabilities(readouts)[:, 0].detach().exp()
    p[..., [PAD, BEGIN]] = 0
    p = p / p.sum(-1, keepdim=True)
    return {
        output: math.prod(float(p[row, i, word]) for i, word in enumerate([*output, END][:LONGEST]))
        for row, output in enumerate(outputs)
    }


@pytest.mark.parametrize("system", ["rnnsearch", "interactive_attention", "coverage_neural", "uam"])
def test_samples_have_the_models_probabilities(system: str) -> None:
    """Pearson's chi-square test, for two sentences in a batch; it fails by chance once in ten thousand times."""
    model = model_of(system, vocabulary=7)
    sources = [[4, 6, 5], [5]]
    torch.manual_seed(11)
    memory = model.encode(collate({"source": sources}))
    drawn = sample(model, memory, DRAWN, [LONGEST, LONGEST])
    for ids, rows in zip(sources, drawn.tolist(), strict=True):
        expected = probabilities(model, ids, vocabulary=7)
        assert sum(expected.values()) == pytest.approx(1, abs=1e-9)
        seen = dict.fromkeys(expected, 0)
        for row in rows:
            seen[tuple(row[: row.index(END)])] += 1
        frequent = [output for output, p in expected.items() if p * DRAWN >= 5]
        rare = 1 - sum(expected[output] for output in frequent)
        cells = [(seen[output], expected[output] * DRAWN) for output in frequent]
        if rare * DRAWN >= 5:
            cells.append((DRAWN - sum(count for count, _ in cells), rare * DRAWN))
        chi_square = sum((count - mean) ** 2 / mean for count, mean in cells)
        freedom = len(cells) - 1
        assert freedom >= 5
        # Wilson and Hilferty's normal approximation of the distribution's 1 - 1e-4 quantile
        assert chi_square < freedom * (1 - 2 / (9 * freedom) + 3.719 * math.sqrt(2 / (9 * freedom))) ** 3


def test_samples_end_at_their_limit_and_have_words_only() -> None:
    model = model_of("rnnsearch")
    torch.manual_seed(3)
    longest = [1, 4, 9]
    memory = model.encode(collate({"source": [[5, 6], [7, 8, 4], [4]]}))
    drawn = sample(model, memory, 200, longest)
    assert drawn.shape[:2] == (3, 200) and drawn.shape[2] <= 10
    assert max(row.index(END) for row in drawn[0].tolist()) == 1  # those of the first sentence were cut
    for rows, most in zip(drawn.tolist(), longest, strict=True):
        ends = [row.index(END) for row in rows]
        assert max(ends) <= most
        for row, end in zip(rows, ends, strict=True):
            assert not {PAD, BEGIN, END} & set(row[:end]) and set(row[end + 1 :]) <= {PAD}


def test_the_same_seed_gives_the_same_samples() -> None:
    model = model_of("rnnsearch")
    memory = model.encode(collate({"source": [[5, 6], [7, 8, 4]]}))
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(sample(model, memory, 20, [6, 6]))
    assert torch.equal(found[0], found[1])
    assert found[0].shape != found[2].shape or not torch.equal(found[0], found[2])


def test_sampling_in_blocks_of_rows_equals_sampling_single_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Words with probability near 1 are sampled at their positions for any block size."""
    words = torch.randint(4, 50, (23,))
    logits = torch.nn.functional.one_hot(words, 50) * 200.0
    for block in (1, 100, 10_000):
        monkeypatch.setattr(cross_entropy, "BLOCK", block)
        assert torch.equal(draw(logits), words)


def test_a_random_number_equal_to_the_total_samples_the_last_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "rand", torch.ones)
    assert draw(torch.zeros(3, 8)).tolist() == [7, 7, 7]
