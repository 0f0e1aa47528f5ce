"""The examples of a model are inputs whose reference it writes, and have its images."""

import pytest

from training.loop.examples import most_alike


@pytest.mark.parametrize(
    ("outputs", "count", "chosen"),
    [
        (["ein Hund", "x", "ein Hund", "ein Hund", "y", "ein Hund"], 2, [2, 5]),
        (["Katze", "ein Hund", "ein Mund"], 2, [1, 2]),
        (["", "ein Hund"], 3, [1, 0]),
        ([], 3, []),
    ],
    ids=["exact ones, evenly spread", "exact ones first", "fewer than asked for", "none"],
)
def test_outputs_that_are_their_reference_are_chosen_first(outputs, count, chosen):
    pairs = {i: (output, ["ein Hund", "Hund"]) for i, output in enumerate(outputs)}
    assert most_alike(list(pairs), pairs, count) == chosen
