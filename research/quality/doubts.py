"""Trust in a word: do doubts find errors, and does a sentence's score go with its quality?

    python -m research.quality.doubts --demo BUNDLE --multi30k BUNDLE [--data-root FOLDER] [--seed 1] [--thresholds]
        [--save]

Errors: a word of a right translation of the demo's world is replaced, dropped or repeated at random, and the demo's
model is forced to write the result. Quality: Spearman's correlation of a sentence's score with its chrF, and words that
the reference does not have, on Multi30k and MLQE-PE, German to English. `--thresholds` compares thresholds on the dev
sets.
"""

import argparse
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path

from sacrebleu.metrics import CHRF
from scipy.stats import spearmanr

import interlinear
from benchmarks.runner import Benchmark, Column, Contestant, Figures, Labels, Options, run
from interlinear.alignment.doubts import THRESHOLDS, DoubtThresholds, find_doubts, is_punctuation
from interlinear.alignment.links import read_gold_alignment
from interlinear.alignment.pair_batches import split_words
from interlinear.explanation import Doubt, Explanation
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from research.quality.planted_errors import KINDS, PlantedError, detection, plant, unspoilt
from training.data.dataset import open_dataset, read_rows

SLOTS = 32  # sentences that are searched, or forced, together
SPLITS = ("dev", "test")
GRID = {
    "probability": (0.05, 0.1, 0.2, 0.3, 0.4, 0.5),
    "attended": (0.05, 0.1, 0.2, 0.3, 0.5),
    "attended_letters": (1, 2, 3, 4, 5, 6),
    "repeated": (0.1, 0.3, 0.5, 0.7, 0.9),
    "repeated_letters": (1, 2, 3, 4, 5),
}
PENALTIES = (0.0, 0.25, 0.5, 1.0, 2.0)  # of the doubts a word, in the score that uses them

NOTES = (
    "*Planted errors*: outputs of the demo's model that are the reference, each as it is and with an error of every "
    "kind, explained by forced decoding. A doubt is right if it names the wrong word, the word after a gap, or a "
    "source word that the error left without a translation by the gold links. *Right references*: those that the model "
    "translates differently.",
    "*Multi30k*: the model's own outputs, German to English. *MLQE-PE*: those of the same model for the German "
    "post-edits of the set, against its English sources: sentences of Wikipedia, of which a model of captions knows "
    "little. A word *is in the reference* if it is one of its words, wherever it stands.",
    "The *score* is the output's log-probability a token; *with doubts*, less a penalty times the doubts a word, where "
    "the penalty is the best on the dev set of " + ", ".join(map(str, PENALTIES)) + ".",
    f"Thresholds: {asdict(THRESHOLDS)}.",
)


@dataclass(frozen=True)
class Translated:
    """A sentence: the score of its translation, its chrF, the reference's words, and the explanation if asked for."""

    score: float
    chrf: float
    reference: frozenset[str]
    explanation: Explanation | None

    def doubts(self, thresholds: DoubtThresholds = THRESHOLDS) -> list[Doubt]:
        assert self.explanation is not None
        return find_doubts(self.explanation, True, thresholds)

    @property
    def doubts_a_word(self) -> float:
        assert self.explanation is not None
        return len(self.doubts()) / max(1, len(self.explanation.target))


Case = tuple[PlantedError, Explanation]


def load(bundle: Path) -> SequenceGenerator:
    return SequenceGenerator(interlinear.load(bundle), slots=SLOTS)


def compared(
    generator: SequenceGenerator, pairs: Sequence[Sequence[str]], explain: bool, tokenised: frozenset[str] = frozenset()
) -> list[tuple[str, Translated]]:
    """Every source of pairs translated, and compared with its reference; without those that are too long to read."""
    options, chrf, translated = generator.bundle.card.search, CHRF(), []
    requests = (Request({"source": source}, options, explain=explain, tokenised=tokenised) for source, _ in pairs)
    for result, (_, reference) in zip(generator.generate(requests), pairs, strict=True):
        if isinstance(result, GenerationResult):
            best, words = result.candidates[0], frozenset(re.findall(r"\w+", reference.lower()))
            quality = chrf.sentence_score(best.text, [reference]).score
            translated.append((best.text, Translated(best.score, quality, words, result.explanation)))
    return translated


def planted_cases(bundle: Path, split: str, asked: argparse.Namespace) -> tuple[list[Case], list[Case]]:
    """Outputs that are the reference, as they are and with errors; and the references that are no outputs."""
    generator = load(bundle)
    rows = list(islice(read_rows(open_dataset("demo", None), split, ["source", "target", "alignment"]), asked.lines))
    outputs = [output for output, _ in compared(generator, [row.texts[:2] for row in rows], explain=False)]
    vocabulary = [word for row in rows for word in words_of(row.texts[1]) if word.isalpha()]
    draw, errors, others = random.Random(asked.seed), list[PlantedError](), list[PlantedError]()
    for row, output in zip(rows, outputs, strict=True):
        source, target, links = row.texts
        if output != target:
            others.append(unspoilt(source, target))
            continue
        sizes = len(words_of(source)), len(words_of(target))
        gold = read_gold_alignment(links, f"demo, {split}, line {row.number}", *sizes).sure
        errors.append(unspoilt(source, target))
        errors += [plant(kind, source, target, gold, vocabulary, draw) for kind in KINDS]
    return forced(generator, errors), forced(generator, others)


def words_of(text: str) -> list[str]:
    return [text[start:end] for start, end in split_words(text, tokenised=False)]


def forced(generator: SequenceGenerator, errors: Sequence[PlantedError]) -> list[Case]:
    """The explanations of translations by forced decoding."""
    pairs = (({"source": error.source_text}, error.text) for error in errors)
    return list(zip(errors, generator.align(pairs, confidence=True), strict=True))


def multi30k(bundle: Path, split: str, asked: argparse.Namespace) -> list[Translated]:
    """Every sentence of a split of Multi30k, translated from German to English."""
    rows = islice(read_rows(open_dataset("multi30k-de-en", asked.data_root), split, ["source", "target"]), asked.lines)
    return [one for _, one in compared(load(bundle), [row.texts for row in rows], explain=True)]


def wikipedia(bundle: Path, split: str, asked: argparse.Namespace) -> list[Translated]:
    """MLQE-PE's German post-edits translated into English, whose references are its English sources. The set is from
    English to German: there is no model of that direction. Sentences are not explained, which takes long for long
    ones."""
    rows = islice(read_rows(open_dataset("mlqe-pe-en-de", asked.data_root), split, ["target", "source"]), asked.lines)
    pairs = [row.texts for row in rows]
    return [one for _, one in compared(load(bundle), pairs, explain=False, tokenised=frozenset({"source"}))]


def doubts_of(cases: Iterable[Case], thresholds: DoubtThresholds) -> list[tuple[PlantedError, list[Doubt]]]:
    return [(error, find_doubts(explanation, True, thresholds)) for error, explanation in cases]


def word_figures(sentences: Sequence[Translated], thresholds: DoubtThresholds) -> dict[str, float]:
    """Of the words of outputs: the share that is improbable, and the shares of these and of the others that the
    reference does not have."""
    absent: dict[bool, list[bool]] = {True: [], False: []}  # of improbable and other words: not in the reference
    for sentence in sentences:
        assert sentence.explanation is not None
        improbable = {doubt.word for doubt in sentence.doubts(thresholds) if doubt.reason == "low_probability"}
        for j, word in enumerate(sentence.explanation.target):
            if not is_punctuation(word.text):
                absent[j in improbable].append(word.text.lower() not in sentence.reference)
    flagged, others = len(absent[True]), len(absent[False])
    return {
        "improbable": flagged / max(1, flagged + others),
        "improbable, not in the reference": sum(absent[True]) / max(1, flagged),
        "others, not in the reference": sum(absent[False]) / max(1, others),
    }


def correlation(sentences: Sequence[Translated], score: float = 1.0, penalty: float = 0.0) -> float:
    """Spearman's correlation of chrF with the score, less a penalty times the doubts a word."""
    scores = [score * one.score - (penalty * one.doubts_a_word if penalty else 0.0) for one in sentences]
    return float(spearmanr(scores, [one.chrf for one in sentences])[0])


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def planted_figures(cases: Sequence[Case], others: Sequence[Case], thresholds: DoubtThresholds) -> dict[str, str]:
    """The rows of planted errors, for one split."""
    measured = detection(doubts_of(cases, thresholds))
    false = [bool(doubts) for _, doubts in doubts_of(others, thresholds)]
    return {
        "planted errors: outputs that are the reference": f"{len(cases) // (1 + len(KINDS)):,}",
        **{f"recall, a word {kind}": percent(measured.recall[kind]) for kind in KINDS},
        **{
            f"precision of `{reason}`; besides, the word after the error": f"{percent(share)}; "
            f"{percent(measured.beside[reason])}"
            for reason, share in sorted(measured.precision.items())
        },
        "right outputs with a doubt": percent(measured.false_alarms),
        "right references with a doubt": percent(sum(false) / max(1, len(false))),
    }


def translated_figures(sentences: Sequence[Translated], penalty: float) -> dict[str, str]:
    """The rows of translated sentences, for one split."""
    return {
        "Multi30k: sentences with a doubt": percent(sum(bool(one.doubts()) for one in sentences) / len(sentences)),
        **{f"Multi30k: words {n}": percent(share) for n, share in word_figures(sentences, THRESHOLDS).items()},
        "Multi30k: Spearman, chrF and the score with doubts": f"{correlation(sentences, penalty=penalty):.3f}",
        "Multi30k: Spearman, chrF and the doubts a word alone": f"{correlation(sentences, 0.0, 1.0):.3f}",
    }


def quality_figures(name: str, sentences: Sequence[Translated]) -> dict[str, str]:
    return {
        f"{name}: sentences": f"{len(sentences):,}",
        f"{name}: mean chrF": f"{sum(one.chrf for one in sentences) / len(sentences):.1f}",
        f"{name}: Spearman, chrF and the score": f"{correlation(sentences):.3f}",
    }


def measure(asked: argparse.Namespace) -> dict[Labels, Figures]:
    """A row for every figure, with a column for each split; with `--thresholds`, the dev sets' by other thresholds."""
    planted = {split: planted_cases(asked.demo, split, asked) for split in SPLITS}
    translated = {split: multi30k(asked.multi30k, split, asked) for split in SPLITS}
    penalty = max(PENALTIES, key=lambda one: correlation(translated["dev"], penalty=one))
    columns = {
        split: planted_figures(*planted[split], THRESHOLDS)
        | translated_figures(translated[split], penalty)
        | quality_figures("Multi30k", translated[split])
        | quality_figures("MLQE-PE", wikipedia(asked.multi30k, split, asked))
        | {"penalty": f"{penalty}"}
        for split in SPLITS
    }
    names = dict.fromkeys(name for column in columns.values() for name in column)
    rows: dict[Labels, Figures] = {(n,): {split: columns[split].get(n, "") for split in SPLITS} for n in names}
    tried = [(name, value) for name, values in GRID.items() for value in values] if asked.thresholds else []
    for name, value in tried:
        thresholds = replace(THRESHOLDS, **{name: value})  # type: ignore[arg-type]
        found = planted_figures(*planted["dev"], thresholds)
        found |= {n: percent(share) for n, share in word_figures(translated["dev"], thresholds).items()}
        rows |= {(f"{name} {value}: {figure}",): {"dev": shown} for figure, shown in found.items()}
    return rows


def main() -> None:
    options = Options(__doc__, rounds=1)
    options.add_argument("--demo", type=Path, required=True, help="a bundle trained on the demo's world")
    options.add_argument("--multi30k", type=Path, required=True, help="a bundle trained on multi30k-de-en")
    options.add_argument("--data-root", type=Path, default=None)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--thresholds", action="store_true", help="compare thresholds on the dev sets")
    options.size("--lines", None, 10, "of each split")
    asked = options.parse()
    columns = {split: Column(split) for split in SPLITS}
    benchmark = Benchmark("doubts", "Doubtful words, and scores as estimates of quality", columns, NOTES, ("",))
    run(benchmark, [Contestant("", lambda: measure(asked), varies=False)], asked)


if __name__ == "__main__":
    main()
