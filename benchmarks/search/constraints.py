"""Terms in a search: how many are written, how many twice, what they do to the rest, and what they cost.

    python -m benchmarks.search.constraints --model BUNDLE --texts FILE --references FILE [--seed 1] [--rounds 3]
        [--save NAME]

BUNDLE is a folder; the files have one text a line, in the model's source language and its target language. From every
sentence that has one, a rare word of the reference with its source word is drawn as a term: the model's own alignment
links them. *invented* gives every such source word a target that no model has seen.
"""

import argparse
import random
import re
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import sacrebleu
import torch

import seq2seq
from benchmarks.reporting import Report, median, say
from seq2seq.explain import Explanation
from seq2seq.generate import SequenceGenerator
from seq2seq.generation_request import GenerationResult, Request
from seq2seq.memory_allocator import keep_freed_memory
from seq2seq.terms import Term

SLOTS = 32  # sentences that are searched together
RARE = 3  # times that a rare word is in the references, at most
SHORTEST = 4  # letters of a term's words
SHARE = 10  # every n-th sentence has its term where a part of them is constrained
SYLLABLES = ("ba", "ko", "mi", "tu", "ze", "lor", "fan", "dri")

NOTES = (
    "The beam size and length penalty of the model's card, from text to text, one thread. A term is *written* if the "
    "output has its target as a word, and *twice* if it has it once more than the reference (than once, if invented).",
    "*BLEU* by sacreBLEU, of the sentences with a term; *rest*: without the term's target, and without the reference's "
    "word for it in the other outputs and in the references.",
    "*Throughput*: sentences/s of the whole file in 32 slots, in turns; medians over the rounds. *x none, CPU*: by the "
    "process' CPU time, which other processes of the machine change less.",
)


@dataclass(frozen=True)
class Case:
    """A sentence, its reference, and a term with the word that the reference has for it."""

    index: int
    term: Term
    reference_word: str


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def draw_cases(
    explanations: Sequence[Explanation], lines: Sequence[str], references: Sequence[str], seed: int
) -> list[Case]:
    """A term of each sentence with a rare word of the reference that stands there once and is linked to one source
    word."""
    draw, counts = random.Random(seed), Counter(word for line in references for word in words_of(line))
    cases = []
    for index, (explanation, line) in enumerate(zip(explanations, lines, strict=True)):
        by_source = Counter(i for i, _ in explanation.alignment)
        possible = []
        for i, j in explanation.alignment:
            source, target = explanation.source[i], explanation.target[j]
            words = source.text, target.text
            if by_source[i] == 1 and counts[target.text] <= RARE and all(is_term(word) for word in words):
                possible.append(Case(index, Term(source.start, source.end, target.text), target.text))
        possible = [one for one in possible if words_of(references[index]).count(one.reference_word) == 1]
        if possible:
            cases.append(draw.choice(possible))
            assert line[cases[-1].term.start : cases[-1].term.end].isalpha()
    return cases


def is_term(word: str) -> bool:
    return word.isalpha() and len(word) >= SHORTEST


def invented(cases: Sequence[Case], seed: int) -> list[Case]:
    """The cases with invented words as targets."""
    draw = random.Random(seed)
    return [replace(one, term=replace(one.term, target="".join(draw.choices(SYLLABLES, k=3)))) for one in cases]


def without(text: str, word: str) -> str:
    """The text without the first such word."""
    return re.sub(rf"\b{re.escape(word)}\b ?", "", text, count=1)


@dataclass(frozen=True)
class Quality:
    """Shares of terms that are written, and written twice; BLEU of the sentences, and of the rest beside the terms."""

    written: float
    twice: float
    bleu: float
    rest: float


def judge(cases: Sequence[Case], outputs: Sequence[str], references: Sequence[str], target_written: bool) -> Quality:
    """`target_written`: whether outputs have the terms' targets, or whatever the model says."""
    own = [outputs[one.index] for one in cases]
    wanted = [one.term.target for one in cases]
    counts = [words_of(text).count(word) for text, word in zip(own, wanted, strict=True)]
    expected = [references[one.index] for one in cases]
    removed = wanted if target_written else [one.reference_word for one in cases]
    rest = [without(text, word) for text, word in zip(own, removed, strict=True)]
    rest_expected = [without(references[one.index], one.reference_word) for one in cases]
    return Quality(
        sum(count > 0 for count in counts) / len(cases),
        sum(count > 1 for count in counts) / len(cases),
        sacrebleu.corpus_bleu(own, [expected]).score,
        sacrebleu.corpus_bleu(rest, [rest_expected]).score,
    )


def search(generator: SequenceGenerator, lines: Sequence[str], cases: Sequence[Case]) -> tuple[list[str], float, float]:
    """The outputs of all sentences, some with a term, and sentences a second: of time, and of the process' CPU time."""
    card, terms = generator.bundle.card, {one.index: (one.term,) for one in cases}
    source = card.model.first_text
    requests = [Request({source: line}, card.search, terms=terms.get(i, ())) for i, line in enumerate(lines)]
    began, cpu_began = time.perf_counter(), time.process_time()
    outputs = []
    for result in generator.generate(requests):
        assert isinstance(result, GenerationResult)
        outputs.append(result.candidates[0].text)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    return outputs, len(lines) / seconds, len(lines) / cpu_seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, metavar="BUNDLE")
    parser.add_argument("--texts", type=Path, required=True, metavar="FILE")
    parser.add_argument("--references", type=Path, required=True, metavar="FILE")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", metavar="NAME", help="keep the result as benchmarks/results/constraints_NAME")
    asked = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(1)
    lines, references = (path.read_text("utf-8").splitlines() for path in (asked.texts, asked.references))
    bundle = seq2seq.load(asked.model)
    generator = SequenceGenerator(bundle, slots=SLOTS, width=bundle.card.search.beam)
    source = bundle.card.model.first_text
    pairs = [({source: line}, reference) for line, reference in zip(lines, references, strict=True)]
    cases = draw_cases(list(generator.align(pairs)), lines, references, asked.seed)
    made_up = invented(cases, asked.seed)
    part = [one for one in cases if one.index % SHARE == 0]
    runs: dict[str, list[Case]] = {"none": [], f"every {SHARE}th": part, "all": cases, "all, invented": made_up}
    say(f"{len(cases)} of {len(lines)} sentences have a term")
    search(generator, lines[:SLOTS], cases)  # warm-up
    rates: dict[str, list[float]] = {name: [] for name in runs}
    cpu_rates: dict[str, list[float]] = {name: [] for name in runs}
    outputs: dict[str, list[str]] = {}
    for _ in range(asked.rounds):
        for name, own in runs.items():
            outputs[name], rate, cpu_rate = search(generator, lines, own)
            rates[name].append(rate)
            cpu_rates[name].append(cpu_rate)
            say(f"{name}: {rate:.1f} sentences/s, {cpu_rate:.1f} a second of CPU time")

    rows = []
    kept: dict[str, object] = {"rates": rates, "cpu rates": cpu_rates, "terms": len(cases), "sentences": len(lines)}
    for name, own in runs.items():
        quality = judge(own or cases, outputs[name], references, bool(own))
        relative = median(rates[name]) / median(rates["none"])
        figures = [f"{quality.written:.1%}", f"{quality.twice:.1%}", f"{quality.bleu:.2f}", f"{quality.rest:.2f}"]
        cpu_relative = median(cpu_rates[name]) / median(cpu_rates["none"])
        speed = [f"{median(rates[name]):.1f}", f"{relative:.2f}", f"{cpu_relative:.2f}"]
        rows.append([name, str(len(own)), *figures, *speed])
        kept[name] = vars(quality)
    others = [i for i in range(len(lines)) if i not in {one.index for one in part}]
    same = sum(outputs["none"][i] == outputs[f"every {SHARE}th"][i] for i in others)
    say(f"{same} of {len(others)} sentences without a term beside others with one have the same output as without them")
    kept["same beside others"] = [same, len(others)]
    columns = [
        "sentences with a term",
        "terms",
        "written",
        "twice",
        "BLEU",
        "BLEU of the rest",
        "sentences/s",
        "x none",
        "x none, CPU",
    ]
    title = f"Terms in a search, {bundle.card.recipe.get('name')}, beam {bundle.card.search.beam}, one thread"
    Report(f"constraints_{asked.save}", title, columns, rows, NOTES, kept).publish(bool(asked.save))


if __name__ == "__main__":
    main()
