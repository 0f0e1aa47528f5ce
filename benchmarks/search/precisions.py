"""Speed and BLEU of search in each precision, with and without a shortlist, and compiled, interleaved in one process on
one thread.

    python -m benchmarks.search.precisions --model BUNDLE --texts FILE --references FILE [--rounds 3] [--alone 100]
        [--save NAME]

BUNDLE is a folder; the files have one text a line, in the model's source language and its target language. If it has
a shortlist (`interlinear shortlist`), each is measured with it too, and compiled if there is a compiler.
"""

import argparse
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import sacrebleu
import torch

import seq2seq
from benchmarks.reporting import Report, median, say
from seq2seq.bundle import Bundle, read_card, with_compiled_search
from seq2seq.bundle.bundle import SHORTLIST
from seq2seq.config import Precision
from seq2seq.devices import computes_bf16
from seq2seq.generate import SequenceGenerator
from seq2seq.generation_request import GenerationResult, Request
from seq2seq.memory_allocator import keep_freed_memory
from seq2seq.model.model import Model
from seq2seq.search.compiled import resolve_compile
from seq2seq.shortlist import Coverage, coverage

SLOTS = 32  # sentences that are searched together

NOTES = (
    "The beam size and length penalty of the model's card, from text to text. *Together*: the whole file, in 32 slots; "
    "*alone*: its first lines one after the other, as a service with one caller. In turns; medians over the rounds.",
    "BLEU of the whole file, natural case, by sacreBLEU.",
    "*Words of a sentence*: among how many a sentence is searched, on average. *Covered*: the share of the words of "
    "fp32's outputs from the whole vocabulary that is among them.",
)
WITH_SHORTLIST = " + shortlist"


@dataclass(frozen=True)
class Measurement:
    """Sentences a second together, milliseconds for a sentence alone, and the whole file's outputs, also as ids."""

    rate: float
    alone_ms: float
    outputs: list[str]
    ids: list[list[int]]


def measure(bundle: Bundle[Model], lines: list[str], alone: int) -> Measurement:
    source, options = next(iter(bundle.card.model.texts)), bundle.card.search
    requests = [Request({source: line}, options) for line in lines]
    begun = time.perf_counter()
    outputs, ids = [], []
    for answer in SequenceGenerator(bundle, slots=SLOTS, width=options.beam).generate(requests):
        assert isinstance(answer, GenerationResult)
        outputs.append(answer.candidates[0].text)
        ids.append(answer.candidates[0].ids)
    rate = len(lines) / (time.perf_counter() - begun)
    seconds = []
    generator = SequenceGenerator(bundle, slots=1, width=options.beam)
    for request in requests[:alone]:
        begun = time.perf_counter()
        list(generator.generate([request]))
        seconds.append(time.perf_counter() - begun)
    return Measurement(rate, 1000 * median(seconds), outputs, ids)


def load_contestants(folder: Path) -> dict[str, Bundle[Model]]:
    """The bundle in every precision, with its shortlist if it has one, and each compiled if there is a compiler."""
    precisions: list[Precision] = ["fp32", *(["bf16"] if computes_bf16(torch.device("cpu")) else []), "int8"]
    bundles: dict[str, Bundle[Model]] = {name: seq2seq.load(folder, precision=name) for name in precisions}
    if SHORTLIST not in read_card(folder).files:
        say("the bundle has no shortlist: `interlinear shortlist` makes it")
    else:
        shortlist = seq2seq.load(folder, shortlist=True).shortlist
        bundles |= {f"{name}{WITH_SHORTLIST}": replace(bundles[name], shortlist=shortlist) for name in precisions}
    if not resolve_compile("on", "cpu"):
        return bundles
    return bundles | {f"{name}, compiled": with_compiled_search(bundle) for name, bundle in bundles.items()}


def covered(bundle: Bundle[Model], lines: list[str], outputs: list[list[int]]) -> Coverage:
    """How many words a shortlist has for the lines, and how many of the outputs' words are among them."""
    assert bundle.shortlist is not None
    source = next(iter(bundle.card.model.texts))
    sources = [{source: encoded.ids} for encoded in bundle.tokenizers[source].encode_batch(lines)]
    return coverage(bundle.shortlist, zip(sources, outputs, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, required=True, metavar="BUNDLE")
    parser.add_argument("--texts", type=Path, required=True, metavar="FILE")
    parser.add_argument("--references", type=Path, required=True, metavar="FILE")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", type=int, default=100)
    parser.add_argument("--save", metavar="NAME", help="keep the result as benchmarks/results/precisions_NAME")
    asked = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(1)
    lines, references = (path.read_text("utf-8").splitlines() for path in (asked.texts, asked.references))
    bundles = load_contestants(asked.model)
    for bundle in bundles.values():
        measure(bundle, lines[:SLOTS], 3)  # warm-up
    seen: dict[str, list[Measurement]] = defaultdict(list)
    for _ in range(asked.rounds):
        for name, bundle in bundles.items():
            result = measure(bundle, lines, asked.alone)
            seen[name].append(result)
            say(f"{name}: {result.rate:.1f} sentences/s together, {result.alone_ms:.1f} ms alone")

    rows = []
    for name, several in seen.items():
        rate, alone = median([one.rate for one in several]), median([one.alone_ms for one in several])
        faster = rate / median([one.rate for one in seen["fp32"]])
        sooner = median([one.alone_ms for one in seen["fp32"]]) / alone
        equal = sum(one == other for one, other in zip(several[0].outputs, seen["fp32"][0].outputs, strict=True))
        bleu = sacrebleu.corpus_bleu(several[0].outputs, [references]).score
        figures = [f"{rate:.1f}", f"{faster:.2f}", f"{alone:.1f}", f"{sooner:.2f}", f"{bleu:.2f}"]
        words = [f"{bundles[name].card.model.target.vocabulary:,}", ""]
        if bundles[name].shortlist:
            found = covered(bundles[name], lines, seen["fp32"][0].ids)
            words = [f"{found.candidates_each:,.0f}", f"{found.share:.2%}"]
        rows.append([name, *figures, f"{equal / len(lines):.0%}", *words])
    columns = ["", "sentences/s together", "x fp32", "ms alone, p50", "x fp32", "BLEU", "outputs as in fp32"]
    columns += ["words of a sentence", "covered"]
    kept = {name: [asdict(one) | {"outputs": None, "ids": None} for one in several] for name, several in seen.items()}
    model = bundles["fp32"].card.recipe.get("name")
    title = f"Search in each precision, {model}, beam {bundles['fp32'].card.search.beam}, one thread"
    Report(f"precisions_{asked.save}", title, columns, rows, NOTES, kept).publish(bool(asked.save))


if __name__ == "__main__":
    main()
