"""Whether one system's score is better than another's by more than the choice of test sentences explains."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sacrebleu.significance import PairedTest
from sacrebleu.significance import Result as SacrebleuResult

from seq2seq.errors import CallError
from seq2seq.metrics.bleu import Tokenization, bleu_metric
from seq2seq.metrics.score import check_parallel

Test = Literal["bootstrap", "randomisation"]
SACREBLEU_TEST = {"bootstrap": "bs", "randomisation": "ar"}


@dataclass(frozen=True)
class Compared:
    """One system beside the baseline.

    `interval` is half the 95 % confidence interval around `mean` over resampled test sets (bootstrap only);
    `p_value` is the chance of such a difference between equal systems (None for the baseline itself).
    """

    system: str
    score: float
    mean: float | None
    interval: float | None
    p_value: float | None


@dataclass(frozen=True)
class Comparison:
    """The first of `systems` is the baseline of all others."""

    test: Test
    signature: str
    systems: tuple[Compared, ...]


def compare_bleu(
    systems: Mapping[str, Sequence[str]],
    references: Sequence[Sequence[str]],
    test: Test,
    samples: int = 0,
    tokenize: Tokenization = "13a",
    lowercase: bool = False,
) -> Comparison:
    """BLEU of every system, and its paired test against the first one.

    Paired bootstrap resampling (Koehn 2004) or approximate randomisation (Riezler and Maxwell 2005), by sacrebleu with
    its fixed seed. `samples` is the number of resamples or trials; 0 means sacrebleu's 1,000 and 10,000.
    Raises CallError for fewer than two systems, DataError when lines are missing.
    """
    if len(systems) < 2:
        raise CallError("compare", "one system alone cannot be compared", "name two or more")
    for hypotheses in systems.values():
        check_parallel(hypotheses, references)
    metric = bleu_metric(tokenize, lowercase)
    paired = PairedTest(
        list(systems.items()), {"BLEU": metric}, references, test_type=SACREBLEU_TEST[test], n_samples=samples
    )
    signatures, columns = paired()
    results = [result for result in columns["BLEU"] if isinstance(result, SacrebleuResult)]
    return Comparison(
        test,
        signatures["BLEU"].format(),
        tuple(
            Compared(name, result.score, result.mean, result.ci, result.p_value)
            for name, result in zip(systems, results, strict=True)
        ),
    )
