"""Metric registry: metrics by name, groups of metrics, and the default metrics of each task."""

import difflib
from collections.abc import Callable, Iterable

from interlinear.errors import UsageError
from interlinear.metrics.alignment import Accuracy, ErrorRate, Precision, Recall
from interlinear.metrics.behaviour import ExactMatch, LengthRatio, OverTranslation, RepetitionRate, UnderTranslation
from interlinear.metrics.meteor import Meteor
from interlinear.metrics.metric import Metric, Preprocessing, Task
from interlinear.metrics.rouge import RougeL, RougeN
from interlinear.metrics.translation import HumanTer, Sacrebleu, TokenizedBleu, bleu, chrf, ter

DUC_BYTES = 75  # length limit of short summaries in DUC 2003 and 2004, task 1

METRICS: dict[str, Callable[[str, Preprocessing], Metric]] = {
    "bleu": lambda name, preprocessing: Sacrebleu(name, bleu, preprocessing),
    "multi-bleu-lc": TokenizedBleu,
    "chrf": lambda name, preprocessing: Sacrebleu(name, chrf, preprocessing),
    "ter": lambda name, preprocessing: Sacrebleu(name, ter, preprocessing),
    "hter": HumanTer,
    "meteor": Meteor,
    "rouge-1": lambda name, preprocessing: RougeN(name, 1),
    "rouge-2": lambda name, preprocessing: RougeN(name, 2),
    "rouge-l": lambda name, preprocessing: RougeL(name),
    "rouge-1-recall-75": lambda name, preprocessing: RougeN(name, 1, DUC_BYTES),
    "rouge-2-recall-75": lambda name, preprocessing: RougeN(name, 2, DUC_BYTES),
    "rouge-l-recall-75": lambda name, preprocessing: RougeL(name, DUC_BYTES),
    "exact-match": ExactMatch,
    "repetition-rate": RepetitionRate,
    "length-ratio": LengthRatio,
    "over-translation": OverTranslation,
    "under-translation": UnderTranslation,
    "aer": lambda name, preprocessing: ErrorRate(name),
    "alignment-precision": lambda name, preprocessing: Precision(name),
    "alignment-recall": lambda name, preprocessing: Recall(name),
    "alignment-accuracy": lambda name, preprocessing: Accuracy(name),
}

ALIGNMENT = ("aer", "alignment-precision", "alignment-recall", "alignment-accuracy")
GROUPS: dict[str, tuple[str, ...]] = {
    "rouge": ("rouge-1", "rouge-2", "rouge-l"),
    "rouge-recall-75": ("rouge-1-recall-75", "rouge-2-recall-75", "rouge-l-recall-75"),
    "alignment": ALIGNMENT,
    "all": tuple(METRICS),
}
DEFAULT_METRICS: dict[Task, tuple[str, ...]] = {
    "translation": ("bleu",),
    "summarization": ("rouge",),
    "multimodal": ("bleu",),
    "post-edit": ("bleu", "hter"),
}


def select_metrics(names: Iterable[str], preprocessing: Preprocessing) -> tuple[Metric, ...]:
    """Metrics by name or group name, case-insensitive and without duplicates. Raises UsageError for an unknown name."""
    selected: dict[str, Metric] = {}
    for name in map(str.lower, names):
        if name not in METRICS and name not in GROUPS:
            known = [*METRICS, *GROUPS]
            similar = difflib.get_close_matches(name, known)
            suggestion = f"did you mean {' or '.join(similar)}? " if similar else ""
            raise UsageError("--metrics", f"'{name}' is no score", f"{suggestion}Known are {', '.join(known)}")
        for member in GROUPS.get(name, (name,)):
            selected.setdefault(member, METRICS[member](member, preprocessing))
    return tuple(selected.values())
