"""BLEU of tokenised text in lower case, as the literature on Multi30k reports it."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from importlib.metadata import version

import numpy as np
from sacrebleu.metrics import BLEU

from seq2seq.metrics.metric import Preprocessing, ReferenceSet, Statistics, SystemOutputs
from seq2seq.metrics.translation import Sacrebleu

UNSPACED = ("zh", "ja", "th", "km", "lo", "my")  # Moses' tokenizer finds no words in these


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
        if self.tokenised or self.language not in UNSPACED:
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
