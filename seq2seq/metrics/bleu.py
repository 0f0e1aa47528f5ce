"""BLEU (Papineni et al. 2002) as sacrebleu reckons it (Post 2018), with its signature."""

from collections.abc import Sequence
from typing import Literal

from sacrebleu.metrics import BLEU

from seq2seq.metrics.score import Score, check_parallel

# 'none' is for text that is tokenised already.
Tokenization = Literal["13a", "none", "intl", "char", "zh"]


def bleu_metric(tokenize: Tokenization, lowercase: bool) -> BLEU:
    """Sacrebleu's metric; that text said to be tokenised looks tokenised is no reason for its warning."""
    return BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")


def corpus_bleu(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    tokenize: Tokenization = "13a",
    lowercase: bool = False,
) -> Score:
    """BLEU of a corpus, 0 to 100, against one or more references, each a line for every hypothesis.

    Raises DataError when there is nothing to score or a reference has another number of lines.
    """
    check_parallel(hypotheses, references)
    metric = bleu_metric(tokenize, lowercase)
    score = metric.corpus_score(hypotheses, references).score
    return Score(score=score, signature=metric.get_signature().format())
