"""Metrics by their names, groups of them, and the default metrics of each task."""

import difflib
from collections.abc import Iterable

from interlinear.components import METRICS
from interlinear.errors import UsageError
from interlinear.metrics import alignment, behaviour, meteor, rouge, translation  # noqa: F401, they register metrics
from interlinear.metrics.metric import Metric, Preprocessing, Task

ALIGNMENT = ("aer", "alignment-precision", "alignment-recall", "alignment-accuracy")
GROUPS: dict[str, tuple[str, ...]] = {
    "rouge": ("rouge-1", "rouge-2", "rouge-l"),
    "rouge-recall-75": ("rouge-1-recall-75", "rouge-2-recall-75", "rouge-l-recall-75"),
    "alignment": ALIGNMENT,
}
ALL = "all"  # a group too
DEFAULT_METRICS: dict[Task, tuple[str, ...]] = {
    "translation": ("bleu",),
    "summarization": ("rouge",),
    "multimodal": ("bleu",),
    "post-edit": ("bleu", "hter"),
}


def select_metrics(names: Iterable[str], preprocessing: Preprocessing) -> tuple[Metric, ...]:
    """Metrics by name or group name, case-insensitive and without duplicates. Raises UsageError for an unknown name."""
    selected: dict[str, Metric] = {}
    groups = GROUPS | {ALL: tuple(METRICS)}
    for name in map(str.lower, names):
        if name not in METRICS and name not in groups:
            known = [*METRICS, *groups]
            similar = difflib.get_close_matches(name, known)
            suggestion = f"did you mean {' or '.join(similar)}? " if similar else ""
            raise UsageError("--metrics", f"'{name}' is no score", f"{suggestion}Known are {', '.join(known)}")
        for member in groups.get(name, (name,)):
            selected.setdefault(member, METRICS[member](member, preprocessing))
    return tuple(selected.values())
