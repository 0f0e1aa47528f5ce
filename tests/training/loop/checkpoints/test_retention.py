"""Which checkpoints of a run are kept: those from which the training can go on to the same result."""

import json

from training.loop.checkpoints.retention import names_to_keep

# Each state's best epochs at that time.
BEST_EPOCHS = {"state-1": [1], "state-2": [1, 2], "state-3": [1, 3], "state-4": [3, 4]}


def progress(state: str) -> bytes:
    return json.dumps({"progress": {"kept": [{"epoch": epoch} for epoch in BEST_EPOCHS[state]]}}).encode()


def kept(keep: int, *required: str, damaged: str = "") -> set[str]:
    content = {state: b'{"progr' if state == damaged else progress(state) for state in BEST_EPOCHS}
    return names_to_keep(list(BEST_EPOCHS), keep, content.__getitem__, required)


def test_the_newest_states_are_kept_with_the_weights_that_their_result_is_chosen_from() -> None:
    assert kept(1) == {"state-4", "epoch-0003", "epoch-0004"}
    assert kept(2) == {"state-3", "state-4", "epoch-0001", "epoch-0003", "epoch-0004"}  # epoch 2 is no longer needed
    assert kept(9) == {*BEST_EPOCHS, "epoch-0001", "epoch-0002", "epoch-0003", "epoch-0004"}


def test_a_required_state_is_kept_with_its_weights_although_it_is_old() -> None:
    # just written after a resumption from an older state, or still being uploaded
    assert kept(1, "state-2") == {"state-2", "state-4", *(f"epoch-000{epoch}" for epoch in range(1, 5))}


def test_a_damaged_state_counts_and_requires_no_weights() -> None:
    assert kept(2, damaged="state-4") == {"state-3", "state-4", "epoch-0001", "epoch-0003"}
