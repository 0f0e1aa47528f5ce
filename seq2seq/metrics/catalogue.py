"""The scores by name, and the names that stand for several."""

import difflib
from collections.abc import Callable, Iterable

from seq2seq.errors import UsageError
from seq2seq.metrics.alignment import Accuracy, ErrorRate, Precision, Recall
from seq2seq.metrics.behaviour import ExactMatch, LengthRatio, OverTranslation, RepetitionRate, UnderTranslation
from seq2seq.metrics.meteor import Meteor
from seq2seq.metrics.metric import Metric, Preprocessing, Task
from seq2seq.metrics.rouge import RougeL, RougeN
from seq2seq.metrics.translation import HumanTer, Sacrebleu, bleu, chrf, ter

DUC_BYTES = 75  # what DUC's short summaries are cut to (its task 1 of 2003 and 2004)

METRICS: dict[str, Callable[[str, Preprocessing], Metric]] = {
    "bleu": lambda name, reading: Sacrebleu(name, bleu, reading),
    "chrf": lambda name, reading: Sacrebleu(name, chrf, reading),
    "ter": lambda name, reading: Sacrebleu(name, ter, reading),
    "hter": HumanTer,
    "meteor": Meteor,
    "rouge-1": lambda name, reading: RougeN(name, 1),
    "rouge-2": lambda name, reading: RougeN(name, 2),
    "rouge-l": lambda name, reading: RougeL(name),
    "rouge-1-recall-75": lambda name, reading: RougeN(name, 1, DUC_BYTES),
    "rouge-2-recall-75": lambda name, reading: RougeN(name, 2, DUC_BYTES),
    "rouge-l-recall-75": lambda name, reading: RougeL(name, DUC_BYTES),
    "exact-match": ExactMatch,
    "repetition-rate": RepetitionRate,
    "length-ratio": LengthRatio,
    "over-translation": OverTranslation,
    "under-translation": UnderTranslation,
    "aer": lambda name, reading: ErrorRate(name),
    "alignment-precision": lambda name, reading: Precision(name),
    "alignment-recall": lambda name, reading: Recall(name),
    "alignment-accuracy": lambda name, reading: Accuracy(name),
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


def select_metrics(names: Iterable[str], reading: Preprocessing) -> tuple[Metric, ...]:
    """The metrics of these names, in capitals or not, each once. Raises CallError for a name that is none's."""
    found: dict[str, Metric] = {}
    for name in map(str.lower, names):
        if name not in METRICS and name not in GROUPS:
            known = [*METRICS, *GROUPS]
            near = difflib.get_close_matches(name, known)
            meant = f"did you mean {' or '.join(near)}? " if near else ""
            raise UsageError("--metrics", f"'{name}' is no score", f"{meant}Known are {', '.join(known)}")
        for one in GROUPS.get(name, (name,)):
            found.setdefault(one, METRICS[one](one, reading))
    return tuple(found.values())
