"""BLEU, chrF and TER as sacrebleu reckons them (Post 2018), with its signatures; and its way to cut text into words."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from sacrebleu.metrics import BLEU, CHRF, TER

from seq2seq.metrics.metric import Metric, Preprocessing, ReferenceSet, Statistics, SystemOutputs, Values


def bleu(reading: Preprocessing) -> BLEU:
    """Sacrebleu's BLEU; that text said to be tokenised looks tokenised is no reason for its warning."""
    return BLEU(tokenize=reading.tokenize, lowercase=bool(reading.lowercase), force=reading.tokenize == "none")


def chrf(reading: Preprocessing) -> CHRF:
    """ChrF2: character n-grams up to 6, recall twice as important (Popovic 2016)."""
    return CHRF(lowercase=bool(reading.lowercase))


def ter(reading: Preprocessing) -> TER:
    """TER (Snover et al. 2006) as tercom has it: case is ignored unless it is said to count."""
    return TER(case_sensitive=reading.lowercase is False)


class Sacrebleu(Metric):
    """One of sacrebleu's metrics, 0 to 100 (TER: from 0 on)."""

    def __init__(self, name: str, make: Callable[[Preprocessing], BLEU | CHRF | TER], reading: Preprocessing) -> None:
        super().__init__(name)
        self.metric = make(reading)
        self.better = "lower" if make is ter else "higher"

    # Sacrebleu's own significance tests use these two methods as we do; nothing public gives sums.

    def statistics(self, outputs: SystemOutputs, answers: ReferenceSet) -> Statistics:
        each = self.metric._extract_corpus_statistics(outputs.hypotheses, answers.references)
        return np.array(each, dtype=np.float64)

    def values(self, sums: Statistics) -> Values:
        return np.array([self.metric._compute_score_from_stats(row).score for row in sums.tolist()])

    def signature_settings(self, answers: ReferenceSet) -> str:
        self.metric.num_refs = len(answers.references)
        return str(self.metric.get_signature().format())


class HumanTer(Sacrebleu):
    """HTER (Snover et al. 2006): TER against the output's own post-edit by a person; case counts, as in WMT's tasks."""

    def __init__(self, name: str, reading: Preprocessing) -> None:
        super().__init__(name, ter, replace(reading, lowercase=bool(reading.lowercase)))

    def missing_requirement(self, answers: ReferenceSet) -> str:
        return "" if answers.task == "post-edit" else "only a post-edit is what a person made of a machine's output"


class WordTokenizer:
    """Cuts text into words as BLEU does."""

    def __init__(self, reading: Preprocessing) -> None:
        self.metric = bleu(reading)
        self.signature_settings = f"case:{'lc' if reading.lowercase else 'mixed'}|tok:{reading.tokenize}"

    def __call__(self, text: str) -> list[str]:
        words: list[str] = self.metric._preprocess_segment(text).split()
        return words
