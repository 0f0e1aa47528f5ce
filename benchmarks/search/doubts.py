"""Trust in a word: do doubts find errors, and does a sentence's score go with its quality?

    python -m benchmarks.search.doubts --demo BUNDLE --multi30k BUNDLE [--data-root FOLDER] [--seed 1] [--save]

Errors: a word of a right translation of the demo's world is replaced, dropped or repeated at random, and the demo's
model is forced to write the result. Quality: Spearman's correlation of a sentence's score with its chrF, and words that
the reference does not have, on Multi30k and MLQE-PE, German to English. Thresholds are compared on the dev sets.
"""

import argparse
import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from sacrebleu.metrics import CHRF
from scipy.stats import spearmanr

import seq2seq
from benchmarks.reporting import Report, say
from benchmarks.search.planted_errors import KINDS, PlantedError, detection, plant, unspoilt
from seq2seq.alignment import THRESHOLDS, DoubtThresholds, find_doubts, read_gold_alignment
from seq2seq.alignment.doubts import is_punctuation
from seq2seq.alignment.pair_batches import split_words
from seq2seq.explain import Doubt, Explanation
from seq2seq.generate import SequenceGenerator
from seq2seq.generation_request import GenerationResult, Request
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
)


@dataclass(frozen=True)
class Translated:
    """A sentence: the explanation and score of its translation, its chrF, and the reference's words."""

    explanation: Explanation
    score: float
    chrf: float
    reference: frozenset[str]


Case = tuple[PlantedError, Explanation]


def translate(generator: SequenceGenerator, texts: Sequence[str]) -> list[GenerationResult]:
    """The translations of texts with their explanations, by the options of the model's card."""
    options = generator.bundle.card.search
    results = generator.generate(Request({"source": text}, options, explain=True) for text in texts)
    return [result for result in results if isinstance(result, GenerationResult)]


def planted_cases(bundle: Path, split: str, seed: int) -> tuple[list[Case], list[Case]]:
    """Outputs that are the reference, as they are and with errors; and the references that are no outputs."""
    generator = SequenceGenerator(seq2seq.load(bundle), slots=SLOTS)
    rows = list(read_rows(open_dataset("demo", None), split, ["source", "target", "alignment"]))
    pairs = [(row.texts[0], row.texts[1]) for row in rows]
    outputs = [result.candidates[0].text for result in translate(generator, [source for source, _ in pairs])]
    vocabulary = [word for _, target in pairs for word in words_of(target) if word.isalpha()]
    draw, errors, others = random.Random(seed), list[PlantedError](), list[PlantedError]()
    for row, (source, target), output in zip(rows, pairs, outputs, strict=True):
        if output != target:
            others.append(unspoilt(source, target))
            continue
        sizes = len(words_of(source)), len(words_of(target))
        gold = read_gold_alignment(row.texts[2], f"demo, {split}, line {row.number}", *sizes).sure
        errors.append(unspoilt(source, target))
        errors += [plant(kind, source, target, gold, vocabulary, draw) for kind in KINDS]
    return forced(generator, errors), forced(generator, others)


def words_of(text: str) -> list[str]:
    return [text[start:end] for start, end in split_words(text, tokenised=False)]


def forced(generator: SequenceGenerator, errors: Sequence[PlantedError]) -> list[Case]:
    """The explanations of translations by forced decoding."""
    pairs = (({"source": error.source_text}, error.text) for error in errors)
    return list(zip(errors, generator.align(pairs, confidence=True), strict=True))


def multi30k(bundle: Path, split: str, data_root: Path | None) -> list[Translated]:
    """Every sentence of a split of Multi30k, translated from German to English."""
    dataset = open_dataset("multi30k-de-en", data_root)
    return compared(bundle, [row.texts for row in read_rows(dataset, split, ["source", "target"])])


def wikipedia_figures(bundle: Path, split: str, data_root: Path | None) -> dict[str, str]:
    """The rows of MLQE-PE for one split: its German post-edits translated into English, whose references are its
    English sources. The set is from English to German: there is no model of that direction. Sentences are not
    explained, which takes long for long ones."""
    generator = SequenceGenerator(seq2seq.load(bundle), slots=SLOTS)
    rows = read_rows(open_dataset("mlqe-pe-en-de", data_root), split, ["target", "source"])
    pairs = [row.texts for row in rows]
    options, chrf = generator.bundle.card.search, CHRF()
    requests = (Request({"source": german}, options, tokenised=frozenset({"source"})) for german, _ in pairs)
    scores, qualities = [], []
    for result, (_, reference) in zip(generator.generate(requests), pairs, strict=True):
        if isinstance(result, GenerationResult):  # else the sentence is longer than the model reads
            best = result.candidates[0]
            scores.append(best.score)
            qualities.append(chrf.sentence_score(best.text, [reference]).score)
    return {
        "MLQE-PE: sentences": f"{len(scores):,}",
        "MLQE-PE: mean chrF": f"{sum(qualities) / len(qualities):.1f}",
        "MLQE-PE: Spearman, chrF and the score": f"{float(spearmanr(scores, qualities)[0]):.3f}",
    }


def compared(bundle: Path, rows: Sequence[Sequence[str]], tokenised: frozenset[str] = frozenset()) -> list[Translated]:
    """Every source of pairs translated, and compared with its reference."""
    generator = SequenceGenerator(seq2seq.load(bundle), slots=SLOTS)
    chrf = CHRF()
    translated = []
    results = translate(generator, [row[0] for row in rows])
    for result, (_, reference) in zip(results, rows, strict=True):
        best, explanation = result.candidates[0], result.explanation
        assert explanation is not None
        quality = chrf.sentence_score(best.text, [reference]).score
        translated.append(
            Translated(explanation, best.score, quality, frozenset(re.findall(r"\w+", reference.lower())))
        )
    return translated


def doubts_of(cases: Iterable[Case], thresholds: DoubtThresholds) -> list[tuple[PlantedError, list[Doubt]]]:
    return [(error, find_doubts(explanation, True, thresholds)) for error, explanation in cases]


def word_figures(sentences: Sequence[Translated], thresholds: DoubtThresholds) -> dict[str, float]:
    """Of the words of outputs: the share that is improbable, and the shares of these and of the others that the
    reference does not have."""
    flagged, missing, others, others_missing = 0, 0, 0, 0
    for sentence in sentences:
        doubts = find_doubts(sentence.explanation, True, thresholds)
        improbable = {doubt.word for doubt in doubts if doubt.reason == "low_probability"}
        for j, word in enumerate(sentence.explanation.target):
            if is_punctuation(word.text):
                continue
            absent = word.text.lower() not in sentence.reference
            if j in improbable:
                flagged, missing = flagged + 1, missing + absent
            else:
                others, others_missing = others + 1, others_missing + absent
    return {
        "improbable": flagged / (flagged + others),
        "improbable, not in the reference": missing / flagged,
        "others, not in the reference": others_missing / others,
    }


def correlation(sentences: Sequence[Translated], score: float = 1.0, penalty: float = 0.0) -> float:
    """Spearman's correlation of chrF with the score, less a penalty times the doubts a word."""
    scores = [
        score * one.score - penalty * len(find_doubts(one.explanation, True)) / max(1, len(one.explanation.target))
        for one in sentences
    ]
    return float(spearmanr(scores, [one.chrf for one in sentences])[0])


def compare_thresholds(cases: Sequence[Case], sentences: Sequence[Translated]) -> dict[str, dict[str, object]]:
    """By threshold and value, the others as they are: the detection of planted errors, and the words of Multi30k."""
    found: dict[str, dict[str, object]] = {}
    for name, values in GRID.items():
        for value in values:
            thresholds = replace(THRESHOLDS, **{name: value})
            found.setdefault(name, {})[str(value)] = {
                "planted errors": asdict(detection(doubts_of(cases, thresholds))),
                "words of Multi30k": word_figures(sentences, thresholds),
            }
    return found


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def planted_figures(cases: Sequence[Case], others: Sequence[Case]) -> dict[str, str]:
    """The rows of planted errors, for one split."""
    measured = detection(doubts_of(cases, THRESHOLDS))
    false = sum(bool(doubts) for _, doubts in doubts_of(others, THRESHOLDS)) / len(others)
    return {
        "planted errors: outputs that are the reference": f"{len(cases) // (1 + len(KINDS)):,}",
        **{f"recall, a word {kind}": percent(measured.recall[kind]) for kind in KINDS},
        **{
            f"precision of `{reason}`; besides, the word after the error": f"{percent(share)}; "
            f"{percent(measured.beside[reason])}"
            for reason, share in sorted(measured.precision.items())
        },
        "right outputs with a doubt": percent(measured.false_alarms),
        "right references with a doubt": percent(false),
    }


def translated_figures(name_of_set: str, sentences: Sequence[Translated], penalty: float) -> dict[str, str]:
    """The rows of translated sentences, for one split."""
    doubtful = sum(bool(find_doubts(one.explanation, True)) for one in sentences) / len(sentences)
    figures = {
        "sentences with a doubt": percent(doubtful),
        "mean chrF": f"{sum(one.chrf for one in sentences) / len(sentences):.1f}",
        **{f"words {name}": percent(share) for name, share in word_figures(sentences, THRESHOLDS).items()},
        "Spearman, chrF and the score": f"{correlation(sentences):.3f}",
        "Spearman, chrF and the score with doubts": f"{correlation(sentences, penalty=penalty):.3f}",
        "Spearman, chrF and the doubts a word alone": f"{correlation(sentences, score=0.0, penalty=1.0):.3f}",
    }
    return {f"{name_of_set}: {name}": value for name, value in figures.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demo", type=Path, required=True, help="a bundle trained on the demo's world")
    parser.add_argument("--multi30k", type=Path, required=True, help="a bundle trained on multi30k-de-en")
    parser.add_argument("--data-root", type=Path, default=None)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    planted, translated, edited = {}, {}, {}
    for split in SPLITS:
        planted[split] = planted_cases(asked.demo, split, asked.seed)
        say(f"demo, {split}: {len(planted[split][0]):,} outputs explained")
        translated[split] = multi30k(asked.multi30k, split, asked.data_root)
        say(f"Multi30k, {split}: {len(translated[split]):,} sentences translated")
        edited[split] = wikipedia_figures(asked.multi30k, split, asked.data_root)
        say(f"MLQE-PE, {split}: translated")
    penalty = max(PENALTIES, key=lambda one: correlation(translated["dev"], penalty=one))
    columns = [
        planted_figures(*planted[split]) | translated_figures("Multi30k", translated[split], penalty) | edited[split]
        for split in SPLITS
    ]
    Report(
        "doubts",
        "Doubtful words, and scores as estimates of quality",
        ["", *SPLITS],
        [[name, *(column.get(name, "") for column in columns)] for name in columns[0]],
        (*NOTES, f"The penalty is {penalty}. Thresholds: {asdict(THRESHOLDS)}."),
        {
            "figures": dict(zip(SPLITS, columns, strict=True)),
            "dev": compare_thresholds(planted["dev"][0], translated["dev"]),
        },
    ).publish(asked.save)


if __name__ == "__main__":
    main()
