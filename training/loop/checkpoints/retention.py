"""Decides which of a run's checkpoints are kept, on disk and on a storage."""

import json
from collections.abc import Callable, Iterable, Sequence


def names_to_keep(
    states: Sequence[str], keep: int, read_progress: Callable[[str], bytes], required: Iterable[str] = ()
) -> set[str]:
    """The names of the kept checkpoints: the newest `keep` states, and the weights of all epochs that they refer to.

    `states`: the names of all states, oldest first. `read_progress`: the content of a state's progress.json, by the
    state's name. `required`: further states that are kept.
    """
    kept_states = {*states[-keep:], *required}
    epochs = {epoch for state in kept_states for epoch in referenced_epochs(read_progress(state))}
    return kept_states | {weights_name(epoch) for epoch in epochs}


def weights_name(epoch: int) -> str:
    """The name of an epoch's weights."""
    return f"epoch-{epoch:04d}"


def referenced_epochs(progress: bytes) -> list[int]:
    """The epochs whose weights a state's progress.json refers to; empty where it is damaged."""
    try:
        return [kept["epoch"] for kept in json.loads(progress)["progress"]["kept"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
