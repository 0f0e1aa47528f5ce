"""BLEU, chrF and TER computed by sacrebleu (Post 2018) with its signatures, and its word tokenizer."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import version

import numpy as np
from sacrebleu.metrics import BLEU, CHRF, TER

from interlinear.components import METRICS
from interlinear.metrics.metric import (
    Metric,
    Preprocessing,
    ReferenceSet,
    Statistics,
    SystemOutputs,
    Values,
    is_unspaced,
)


def bleu(preprocessing: Preprocessing) -> BLEU:
    """Sacrebleu's BLEU; `force` silences its warning about tokenised text when `tokenize` is "none"."""
    return BLEU(
        tokenize=preprocessing.tokenize, lowercase=bool(preprocessing.lowercase), force=preprocessing.tokenize == "none"
    )


def chrf(preprocessing: Preprocessing) -> CHRF:
    """chrF2: character n-grams up to 6, recall weighted twice as much as precision (Popovic 2016)."""
    return CHRF(lowercase=bool(preprocessing.lowercase))


def ter(preprocessing: Preprocessing) -> TER:
    """TER (Snover et al. 2006) as in tercom: case-insensitive unless `lowercase` is False. Where no spaces separate
    words, it separates the characters, as tercom does with `-N -s`."""
    unspaced = preprocessing.tokenize in ("zh", "char")
    return TER(normalized=unspaced, asian_support=unspaced, case_sensitive=preprocessing.lowercase is False)


class Sacrebleu(Metric):
    """Adapter for a sacrebleu metric, 0 to 100 (TER has no upper limit)."""

    def __init__(
        self, name: str, make: Callable[[Preprocessing], BLEU | CHRF | TER], preprocessing: Preprocessing
    ) -> None:
        super().__init__(name)
        self.metric = make(preprocessing)
        self.better = "lower" if make is ter else "higher"

    # Sacrebleu has no public API for statistics; its own significance tests use these two methods the same way.

    def statistics(self, outputs: SystemOutputs, reference_set: ReferenceSet) -> Statistics:
        each = self.metric._extract_corpus_statistics(outputs.hypotheses, reference_set.references)
        return np.array(each, dtype=np.float64)

    def values(self, sums: Statistics) -> Values:
        return np.array([self.metric._compute_score_from_stats(row).score for row in sums.tolist()])

    def signature_settings(self, reference_set: ReferenceSet) -> str:
        self.metric.num_refs = len(reference_set.references)
        return str(self.metric.get_signature().format())


METRICS.register("bleu")(lambda name, preprocessing: Sacrebleu(name, bleu, preprocessing))
METRICS.register("chrf")(lambda name, preprocessing: Sacrebleu(name, chrf, preprocessing))
METRICS.register("ter")(lambda name, preprocessing: Sacrebleu(name, ter, preprocessing))


@METRICS.register("hter")
class HumanTer(Sacrebleu):
    """HTER (Snover et al. 2006): TER against a human post-edit of the output; case-sensitive, as in the WMT tasks."""

    def __init__(self, name: str, preprocessing: Preprocessing) -> None:
        super().__init__(name, ter, replace(preprocessing, lowercase=bool(preprocessing.lowercase)))

    def missing_requirement(self, reference_set: ReferenceSet) -> str:
        return (
            "" if reference_set.task == "post-edit" else "only a post-edit is what a person made of a machine's output"
        )


class WordTokenizer:
    """Splits text into words with BLEU's tokenizer."""

    def __init__(self, preprocessing: Preprocessing) -> None:
        self.metric = bleu(preprocessing)
        self.signature_settings = f"case:{'lc' if preprocessing.lowercase else 'mixed'}|tok:{preprocessing.tokenize}"

    def __call__(self, text: str) -> list[str]:
        words: list[str] = self.metric._preprocess_segment(text).split()
        return words


@METRICS.register("multi-bleu-lc")
class TokenizedBleu(Sacrebleu):
    """BLEU as Moses' `multi-bleu.perl` computes it for outputs and references that `normalize-punctuation.perl`,
    `tokenizer.perl` and `lowercase.perl` prepared, in this order.

    Text that is already tokenised is put into lower case only. Such scores depend on the tokenizer, so they stand only
    beside scores that were prepared in the same way; `bleu` is for all other comparisons (Post 2018).
    """

    def __init__(self, name: str, preprocessing: Preprocessing) -> None:
        super().__init__(name, lambda _: BLEU(tokenize="none", smooth_method="none", force=True), preprocessing)
        self.language = preprocessing.language or "en"
        self.tokenised = preprocessing.tokenize == "none"

    def missing_requirement(self, reference_set: ReferenceSet) -> str:
        if self.tokenised or not is_unspaced(self.language):
            return ""
        return f"Moses' tokenizer finds no words in '{self.language}'"

    def statistics(self, outputs: SystemOutputs, reference_set: ReferenceSet) -> Statistics:
        prepare = str.lower if self.tokenised else moses_preparation(self.language)

        def prepared(lines: Iterable[str]) -> list[str]:
            return [prepare(line) for line in lines]

        each = self.metric._extract_corpus_statistics(
            prepared(outputs.hypotheses), [prepared(reference) for reference in reference_set.references]
        )
        return np.array(each, dtype=np.float64)

    def signature_settings(self, reference_set: ReferenceSet) -> str:
        how = "tok:none" if self.tokenised else f"norm:moses|tok:moses-{self.language}"
        settings = super().signature_settings(reference_set)
        settings = settings.replace("case:mixed", "case:lc").replace("tok:none", how)
        return settings if self.tokenised else f"{settings}|sacremoses:{version('sacremoses')}"


@lru_cache
def moses_preparation(language: str) -> Callable[[str], str]:
    """A function that normalises punctuation, tokenises and lower-cases a line, as Moses' scripts do."""
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    normalizer, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return lambda line: " ".join(tokenizer.tokenize(normalizer.normalize(line), escape=False)).lower()
