"""The choice of the best words in a step."""

import pytest
import torch

from interlinear.search.best_columns import BLOCK, best_columns


@pytest.mark.parametrize("columns", [3, BLOCK, 4 * BLOCK, 20 * BLOCK, 100 * BLOCK, 100 * BLOCK + 1, 101 * BLOCK - 1])
@pytest.mark.parametrize("k", [1, 3, 5, 24])
def test_the_best_columns(columns: int, k: int) -> None:
    """As by sorting; with values of -inf, and the best ones anywhere, all in one block too."""
    k = min(k, columns)
    values = torch.randn(2, 3, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(columns))
    values[..., 1] = -torch.inf
    values[1, 1] -= torch.arange(columns)  # the first ones
    values[1, 2] += torch.arange(columns)  # the last ones
    best, column = best_columns(values, k)
    order = values.argsort(-1, descending=True)[..., :k]
    assert torch.equal(column, order) and torch.equal(best, values.gather(-1, order))


def test_rows_without_enough_values() -> None:
    values = torch.full((1, 2, 100 * BLOCK), -torch.inf)
    values[0, 1, 777] = 0.5
    best, column = best_columns(values, 3)
    assert best[0].tolist() == [[-torch.inf] * 3, [0.5, -torch.inf, -torch.inf]] and column[0, 1, 0] == 777
    assert all(len(set(row)) == 3 for row in column[0].tolist())
