"""Quality beside speed on Multi30k, German to English: our models in every form of search beside other toolkits.

    python -m benchmarks.frontier [--peers FOLDER] --model NAME BUNDLE --model NAME BUNDLE [--threads 1 2] [--rounds 3]
        [--alone 100] [--lines 1000] [--only TEXT] [--every-form] [--texts FILE --references FILE] [--figure FILE]
        [--save]

FOLDER is that of benchmarks/peers/frontier.sh, which trains the peers; each that it has takes part, and its test set is
translated. Without it, or with other text, name the files by --texts and --references. BUNDLE is a trained model's
folder. Every contestant translates in a process of its own, from raw text to raw text, in turns.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, product
from pathlib import Path

import numpy as np
import sacrebleu
import torch

from benchmarks.contestants import PEERS
from benchmarks.reporting import ROOT, say
from benchmarks.runner import Benchmark, Column, Contestant, Figures, Labels, Options, run
from interlinear.bundle.bundle import SHORTLIST
from interlinear.bundle.precision import resolve_precision
from interlinear.devices import computes_bf16
from interlinear.search.compiled import has_compiler

BEAMS = (5, 1)

NOTES = (
    "*Together*: all sentences, in batches (ours: slots) of 32; words are those of the outputs. *Alone*: the first "
    "sentences one after the other. *Start*: from the start of the process to its first translation. *Memory*: the "
    "peak of the process. All from raw text to raw text, each in a process of its own, in turns; medians over the "
    "rounds, percentiles over the sentences of a round. BLEU by sacreBLEU, natural case.",
    "Beam 5 with scores divided by the length, and greedy search. OpenNMT-py and JoeyNMT: LSTM of 256, one layer a "
    "side, additive attention, input feeding, fp32. CTranslate2: a Transformer of 3 + 3 layers, 256, 4 heads, "
    "feed-forward 1,024, trained by OpenNMT-py, in int8; *map*: with a vocabulary map made by IBM Model 1. All peers "
    "have 6,000 subwords a side. With two threads CTranslate2 has two workers of one thread for all sentences "
    "together, and one worker of two for a sentence alone; the others have one of two.",
)


@dataclass(frozen=True)
class System:
    """A system in one form of search. `command`: its process, without the options that all have."""

    family: str
    form: str
    beam: int
    command: tuple[str, ...]

    @property
    def label(self) -> str:
        return ", ".join(filter(None, [self.form, "greedy" if self.beam == 1 else f"beam {self.beam}"]))

    @property
    def name(self) -> str:
        return f"{self.family}, {self.label}"


def forms_of(bundle: Path, every: bool) -> list[list[str]]:
    """A bundle's precisions that this processor has, the last of them with its shortlist if it has one, and compiled
    where there is a compiler; with `every`, each precision in all these ways."""
    precisions = ["fp32", *(["bf16"] if computes_bf16(torch.device("cpu")) else [])]
    precisions += ["int8"] if every or resolve_precision("auto", "cpu") == "int8" else []
    further = ["shortlist"] if (bundle / SHORTLIST).is_file() else []
    further += ["compile"] if has_compiler("cpu") else []
    if every:
        ways = [way for size in range(len(further) + 1) for way in combinations(further, size)]
        return [[precision, *way] for way in ways for precision in precisions]
    with_each = [[precisions[-1], *further[: i + 1]] for i in range(len(further))]
    return [*([precision] for precision in precisions), *with_each]


def our_systems(name: str, bundle: Path, every: bool) -> list[System]:
    """A bundle in each form and with each beam."""
    return [
        System(
            f"Interlinear, {name}",
            " + ".join(form),
            beam,
            (
                *(sys.executable, "-m", "benchmarks.frontier_search", "OUTPUT", str(bundle.resolve())),
                *("--precision", form[0], *(f"--{option}" for option in form[1:])),
            ),
        )
        for form in forms_of(bundle, every)
        for beam in BEAMS
    ]


def peer_systems(folder: Path) -> list[System]:
    """The peers whose models are in the folder; the others are named on stderr."""
    models = {
        ("opennmt", "OpenNMT-py 3.5.1", "fp32"): "opennmt/averaged.pt",
        ("joeynmt", "JoeyNMT 2.3.0", "fp32"): "joeynmt-multi30k/.trained",
        ("ctranslate2", "CTranslate2, Transformer", "int8"): "ctranslate2/model.bin",
        ("ctranslate2-map", "CTranslate2, Transformer", "int8 + map"): "ctranslate2/model.bin",
    }
    python, script = folder / "venv" / "bin" / "python", PEERS / "frontier_search.py"
    systems = []
    for (system, family, form), model in models.items():
        if not (folder / model).exists():
            say(f"{family} is left out: it is not trained. Run benchmarks/peers/frontier.sh {folder} {system}")
            continue
        command = (str(python), str(script), "OUTPUT", str(folder), system)
        systems += [System(family, form, beam, command) for beam in BEAMS]
    return systems


def measure(system: System, lines: Path, references: list[str], asked: argparse.Namespace) -> dict[Labels, Figures]:
    """A run with each number of threads: what `peers.search_times.measure` writes, and the seconds to start."""
    rows: dict[Labels, Figures] = {}
    for threads in asked.threads:
        with tempfile.TemporaryDirectory() as scratch:
            output, log = Path(scratch) / "record.json", Path(scratch) / "log"
            options = ["--beam", system.beam, "--threads", threads, "--lines", lines, "--alone", asked.alone]
            command = [str(output) if word == "OUTPUT" else str(word) for word in (*system.command, *options)]
            environment = {
                **os.environ,
                "OMP_NUM_THREADS": str(threads),
                "PYTHONPATH": str(ROOT),
                "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",  # OpenNMT-py's checkpoints contain an argparse.Namespace
            }
            with log.open("w") as file:
                started = time.time()
                ended = subprocess.run(command, cwd=scratch, env=environment, stdout=file, stderr=file, check=False)
            if ended.returncode or not output.exists():
                sys.exit(f"{system.name} ended with code {ended.returncode}:\n{log.read_text()[-2000:]}")
            record = json.loads(output.read_text("utf-8"))
        outputs, seconds = record["outputs"], record["seconds"]
        p50, p99 = 1000 * np.percentile(record["alone"], (50, 99))
        rows[str(threads),] = {
            "rate": len(outputs) / seconds, "words": sum(len(line.split()) for line in outputs) / seconds,
            "p50": float(p50), "p99": float(p99), "bleu": sacrebleu.corpus_bleu(outputs, [references]).score,
            "memory": record["memory_mib"], "start": record["ready"] - started,
        }  # fmt: skip
    return rows


@dataclass(frozen=True)
class Point:
    """A system's medians in the figure."""

    system: System
    threads: int
    rate: float  # sentences a second
    bleu: float


def frontier(points: Sequence[Point]) -> list[Point]:
    """The points that no other is at least as fast and as good as, from the fastest to the best."""
    best: list[Point] = []
    for point in sorted(points, key=lambda point: (-point.rate, -point.bleu)):
        if not best or point.bleu > best[-1].bleu:
            best.append(point)
    return best


def draw(points: Sequence[Point], path: Path) -> None:
    """BLEU by sentences a second, a chart for each number of threads; hollow markers are greedy searches."""
    import matplotlib.pyplot as plt

    families = list(dict.fromkeys(point.system.family for point in points))
    counts = sorted({point.threads for point in points})
    figure, charts = plt.subplots(len(counts), figsize=(7, 3.5 * len(counts)), squeeze=False, layout="constrained")
    for count, axes in zip(counts, charts[:, 0], strict=True):
        here = [point for point in points if point.threads == count]
        best = frontier(here)
        axes.plot([point.rate for point in best], [point.bleu for point in best], "--", color="grey", linewidth=0.8)
        for point in here:
            number = families.index(point.system.family)
            axes.plot(
                point.rate, point.bleu, "osD^vP*X"[number % 8], color=f"C{number}",
                markerfacecolor="white" if point.system.beam == 1 else f"C{number}",
                label=point.system.family if point.system.beam != 1 else None,
            )  # fmt: skip
        for point in best:
            axes.annotate(point.system.label, (point.rate, point.bleu), (4, 4), textcoords="offset points", fontsize=6)
        axes.set(xscale="log", xlabel="sentences a second", title=f"BLEU, {count} thread(s); hollow: greedy search")
        handles, labels = axes.get_legend_handles_labels()
        unique = dict(zip(labels, handles, strict=True))
        axes.legend(unique.values(), unique.keys(), fontsize=6)
    figure.savefig(path)


def main() -> None:
    options = Options(__doc__)
    options.add_argument("--peers", type=Path, metavar="FOLDER")
    options.add_argument("--model", action="append", nargs=2, default=[], metavar=("NAME", "BUNDLE"))
    options.add_argument("--texts", type=Path, metavar="FILE")
    options.add_argument("--references", type=Path, metavar="FILE")
    options.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options.size("--alone", 100, 2, "sentences that are measured alone")
    options.size("--lines", 1000, 8, "sentences that are translated")
    options.add_argument("--only", default="", metavar="TEXT", help="contestants whose names contain it")
    options.add_argument("--every-form", action="store_true", help="each precision with the shortlist and compiled")
    options.add_argument("--figure", type=Path, metavar="FILE")
    asked = options.parse()
    if not asked.peers and not (asked.texts and asked.references):
        options.error("give --peers, or --texts and --references")
    systems = peer_systems(asked.peers.resolve()) if asked.peers else []
    for name, bundle in asked.model:
        systems += our_systems(name, Path(bundle), asked.every_form)
    systems = [system for system in systems if asked.only in system.name]
    if not systems:
        sys.exit("there is nothing to measure: name a bundle with --model, or train the peers")
    named = {"source": asked.texts, "target": asked.references}
    sources, references = (
        (file or asked.peers / "multi30k" / f"test.{side}").read_text("utf-8").splitlines()[: asked.lines]
        for side, file in named.items()
    )
    benchmark = Benchmark(
        "frontier" if asked.peers else "frontier_forms",
        "Quality and speed of search" + (", Multi30k, German to English" if asked.peers else ""),
        {
            "rate": Column("sentences/s"),
            "words": Column("words/s"),
            "p50": Column("alone, p50 ms"),
            "p99": Column("p99 ms"),
            "bleu": Column("BLEU", ".2f"),
            "memory": Column("memory, MiB"),
            "start": Column("start, s"),
        },
        NOTES,
        ("threads",),
        "rate",
        {"x the first": systems[0].name},
    )
    with tempfile.TemporaryDirectory() as scratch:
        lines = Path(scratch) / "lines"
        lines.write_text("".join(f"{line}\n" for line in sources), "utf-8")
        contestants = [Contestant(one.name, partial(measure, one, lines, references, asked)) for one in systems]
        results = run(benchmark, contestants, asked)
    if asked.figure:
        points = []
        for one, threads in product(systems, asked.threads):
            rate, bleu = (results.middle(one.name, (str(threads),), figure) for figure in ("rate", "bleu"))
            assert rate is not None and bleu is not None
            points.append(Point(one, threads, rate, bleu))
        draw(points, asked.figure)


if __name__ == "__main__":
    main()
