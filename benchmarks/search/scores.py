"""Seconds to score 10,000 summaries by ROUGE-1, -2 and -L, and to test the difference to another system.

    python -m benchmarks.search.scores [--lines 10000] [--samples 1000] [--save]

Everything together must take less than 10 seconds on one core. Sacrebleu's own paired bootstrap of BLEU is timed for
comparison.
"""

import argparse
import random
import time
from collections.abc import Callable
from itertools import accumulate

from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from benchmarks.reporting import Report, alone, say
from seq2seq.metrics.catalogue import select_metrics
from seq2seq.metrics.metric import Preprocessing, ReferenceSet, SystemOutputs
from seq2seq.metrics.significance import TESTS, compare

WORDS = 20_000  # distinct words, with natural frequencies
SPOILED = {"baseline": 0.5, "other": 0.49}  # the share of words in which a system differs from the reference

NOTES = (
    f"Two systems' summaries of 6 to 14 words and their references, generated: {WORDS:,} words as frequent as words "
    "are, half of them other than the reference's. *Scores* are of both systems, with the 95 % interval of ROUGE-1.5.5 "
    "(1,000 resamples); the *tests* are of all three scores together.",
)


def write(lines: int) -> tuple[list[str], dict[str, list[str]]]:
    """References, and each system's summaries."""
    draw = random.Random(1)
    syllables = [a + b for a in "bdfgklmnprst" for b in "aeiou"]
    endings = ["", "", "s", "ed", "ing", "ment", "ation"]
    forms = ["".join(draw.choices(syllables, k=draw.randint(1, 4))) + draw.choice(endings) for _ in range(WORDS)]
    chances = list(accumulate(1 / rank for rank in range(10, WORDS + 10)))
    references = [draw.choices(forms, cum_weights=chances, k=draw.randint(6, 14)) for _ in range(lines)]
    systems = {
        name: [
            " ".join(
                draw.choices(forms, cum_weights=chances)[0] if draw.random() < share else word for word in reference
            )
            for reference in references
        ]
        for name, share in SPOILED.items()
    }
    return [" ".join(reference) for reference in references], systems


def timed(name: str, work: Callable[[], object]) -> float:
    """Seconds of a call."""
    begun = time.perf_counter()
    work()
    seconds = time.perf_counter() - begun
    say(f"{name}: {seconds:.2f} s")
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=10_000)
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    lines, systems = write(asked.lines)
    answers = ReferenceSet.from_lines([lines], "summarization")
    outputs = {name: SystemOutputs.from_lines(summaries) for name, summaries in systems.items()}
    rouge = select_metrics(["rouge"], Preprocessing())
    (bleu,) = select_metrics(["bleu"], Preprocessing())
    statistics = {metric: {n: [metric.statistics(o, answers)] for n, o in outputs.items()} for metric in (*rouge, bleu)}
    seconds = {}
    with alone() as disturbance:
        seconds["scores"] = timed("scores", lambda: [m.score(o, answers) for m in rouge for o in outputs.values()])
        for test in TESTS:
            seconds[test] = timed(
                test, lambda test=test: [compare(m, statistics[m], test, "", asked.samples) for m in rouge]
            )
        ours = timed("BLEU, ours", lambda: compare(bleu, statistics[bleu], "bootstrap", "", asked.samples))
        paired = PairedTest(list(systems.items()), {"BLEU": BLEU()}, [lines], "bs", n_samples=asked.samples)
        theirs = timed("BLEU, sacrebleu's", paired)
    rows = [[name, f"{value:.2f}"] for name, value in seconds.items()]
    rows.append(["together", f"{sum(seconds.values()):.2f}"])
    rows.append(["BLEU's bootstrap: ours, sacrebleu's with its statistics", f"{ours:.2f}, {theirs:.2f}"])
    Report(
        "scores",
        f"ROUGE-1, -2 and -L and their significance, {asked.lines:,} summaries, {asked.samples:,} resamples and trials",
        ["what", "seconds"],
        rows,
        (*NOTES, f"Other programs used {disturbance.share:.0%} of the processor meanwhile."),
        {"seconds": seconds, "bleu": ours, "sacrebleu": theirs},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
