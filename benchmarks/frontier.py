"""Quality beside speed on Multi30k, German to English: our models in every form of search beside other toolkits.

    python -m benchmarks.frontier --peers FOLDER --model NAME BUNDLE --model NAME BUNDLE [--threads 1 2] [--rounds 3]
        [--alone 100] [--lines 1000] [--only TEXT] [--figure FILE] [--save]

FOLDER is that of benchmarks/peers/frontier.sh, which trains the peers; each that it has takes part. BUNDLE is a trained
model's folder: the large one, and its student. Every contestant translates the test set in a process of its own,
from raw text to raw text, in turns.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sacrebleu
import torch

from benchmarks.frontier_figure import Point, draw
from benchmarks.reporting import ROOT, Report, alone, median, say, table_number
from seq2seq.bundle.bundle import SHORTLIST
from seq2seq.bundle.precision import resolve_precision
from seq2seq.devices import computes_bf16
from seq2seq.search.compiled import has_compiler

PEERS = Path(__file__).parent / "peers"
BEAMS = (5, 1)

NOTES = (
    "*Together*: the test set of 2016, in batches (ours: slots) of 32 sentences; words are those of the outputs. "
    "*Alone*: its first sentences one after the other. *Start*: from the start of the process to its first "
    "translation. *Memory*: the peak of the process. All from raw text to raw text, each in a process of its own, in "
    "turns; medians over the rounds, percentiles over the sentences of all rounds. BLEU by sacreBLEU, natural case.",
    "Beam 5 with scores divided by the length, and greedy search. OpenNMT-py and JoeyNMT: LSTM of 256, one layer a "
    "side, additive attention, input feeding, fp32. CTranslate2: a Transformer of 3 + 3 layers, 256, 4 heads, "
    "feed-forward 1,024, trained by OpenNMT-py, in int8; *map*: with a vocabulary map made by IBM Model 1. All peers "
    "have 6,000 subwords a side. With two threads CTranslate2 has two workers of one thread for all sentences "
    "together, and one worker of two for a sentence alone; the others have one of two.",
)


@dataclass(frozen=True)
class Contestant:
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


def our_contestants(name: str, bundle: Path) -> list[Contestant]:
    """A bundle in every precision that this processor has, then with its shortlist if it has one, and compiled where
    there is a compiler."""
    precisions = ["fp32", *(["bf16"] if computes_bf16(torch.device("cpu")) else [])]
    precisions += ["int8"] if resolve_precision("auto", "cpu") == "int8" else []
    forms = [[precision] for precision in precisions]
    if (bundle / SHORTLIST).is_file():
        forms.append([*forms[-1], "shortlist"])
    if has_compiler("cpu"):
        forms.append([*forms[-1], "compile"])
    return [
        Contestant(
            name,
            " + ".join(form),
            beam,
            (
                *(sys.executable, "-m", "benchmarks.frontier_search", "OUTPUT", str(bundle.resolve())),
                *("--precision", form[0], *(f"--{option}" for option in form[1:])),
            ),
        )
        for form in forms
        for beam in BEAMS
    ]


def peer_contestants(folder: Path) -> list[Contestant]:
    """The peers whose models are in the folder; the others are named on stderr."""
    models = {
        ("opennmt", "OpenNMT-py 3.5.1", "fp32"): "opennmt/averaged.pt",
        ("joeynmt", "JoeyNMT 2.3.0", "fp32"): "joeynmt-multi30k/.trained",
        ("ctranslate2", "CTranslate2, Transformer", "int8"): "ctranslate2/model.bin",
        ("ctranslate2-map", "CTranslate2, Transformer", "int8 + map"): "ctranslate2/model.bin",
    }
    python, script = folder / "venv" / "bin" / "python", PEERS / "frontier_search.py"
    contestants = []
    for (system, family, form), model in models.items():
        if not (folder / model).exists():
            say(f"{family} is left out: it is not trained. Run benchmarks/peers/frontier.sh {folder} {system}")
            continue
        command = (str(python), str(script), "OUTPUT", str(folder), system)
        contestants += [Contestant(family, form, beam, command) for beam in BEAMS]
    return contestants


def run(contestant: Contestant, lines: Path, threads: int, count: int) -> dict[str, Any]:
    """One measurement: what `measure` writes, with the seconds to start, and the share that other programs used."""
    with tempfile.TemporaryDirectory() as scratch:
        output, log = Path(scratch) / "record.json", Path(scratch) / "log"
        options = ["--beam", contestant.beam, "--threads", threads, "--lines", lines, "--alone", count]
        command = [str(output) if word == "OUTPUT" else word for word in (*contestant.command, *map(str, options))]
        environment = {
            **os.environ,
            "OMP_NUM_THREADS": str(threads),
            "PYTHONPATH": str(ROOT),
            "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",  # OpenNMT-py's checkpoints contain an argparse.Namespace
        }
        with log.open("w") as file, alone() as disturbance:
            started = time.time()
            ended = subprocess.run(command, cwd=scratch, env=environment, stdout=file, stderr=file, check=False)
        if ended.returncode or not output.exists():
            sys.exit(f"{contestant.name} ended with code {ended.returncode}:\n{log.read_text()[-2000:]}")
        record = json.loads(output.read_text("utf-8"))
    return {**record, "start": record["ready"] - started, "others": disturbance.share}


def percentile(records: Sequence[dict[str, Any]], share: float) -> float:
    """Milliseconds that this share (0 to 100) of the sentences alone took at most."""
    return float(1000 * np.percentile([seconds for record in records for seconds in record["alone"]], share))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--model", action="append", nargs=2, default=[], metavar=("NAME", "BUNDLE"))
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--alone", type=int, default=100, help="sentences that are measured alone")
    parser.add_argument("--lines", type=int, default=1000, help="sentences of the test set, for a trial")
    parser.add_argument("--only", default="", metavar="TEXT", help="contestants whose names contain it")
    parser.add_argument("--figure", type=Path, metavar="FILE")
    parser.add_argument("--save", action="store_true")
    asked = parser.parse_args()
    peers = asked.peers.resolve()
    contestants = peer_contestants(peers)
    for name, bundle in asked.model:
        contestants += our_contestants(f"Interlinear, {name}", Path(bundle))
    contestants = [contestant for contestant in contestants if asked.only in contestant.name]
    if not contestants:
        sys.exit("there is nothing to measure: name a bundle with --model, or train the peers")
    sources, references = (
        (peers / "multi30k" / f"test.{side}").read_text("utf-8").splitlines()[: asked.lines]
        for side in ("source", "target")
    )
    seen: dict[tuple[Contestant, int], list[dict[str, Any]]] = defaultdict(list)
    with tempfile.TemporaryDirectory() as scratch:
        lines = Path(scratch) / "lines"
        lines.write_text("".join(f"{line}\n" for line in sources), "utf-8")
        for turn in range(asked.rounds):
            first = turn % len(contestants)
            for threads in asked.threads:
                for contestant in [*contestants[first:], *contestants[:first]]:
                    record = run(contestant, lines, threads, asked.alone)
                    seen[contestant, threads].append(record)
                    rate = len(sources) / record["seconds"]
                    say(f"{contestant.name}, threads {threads}: {rate:.1f} sentences/s, {record['others']:.0%} others")

    rows, points, kept = [], [], {}
    for threads in asked.threads:
        for contestant in contestants:
            records = seen[contestant, threads]
            seconds, outputs = median([record["seconds"] for record in records]), records[0]["outputs"]
            words = sum(len(line.split()) for line in outputs)
            bleu = sacrebleu.corpus_bleu(outputs, [references]).score
            figures = [
                *(len(sources) / seconds, words / seconds, percentile(records, 50), percentile(records, 99)),
                *(median([record[key] for record in records]) for key in ("memory_mib", "start")),
            ]
            cells = [table_number(figure) for figure in figures]
            rows.append([contestant.name, str(threads), *cells[:4], f"{bleu:.2f}", *cells[4:]])
            points.append(
                Point(contestant.family, contestant.label, threads, len(sources) / seconds, bleu, contestant.beam == 1)
            )
            measured = [{key: value for key, value in record.items() if key != "outputs"} for record in records]
            kept[f"{contestant.name}, {threads}"] = {"bleu": bleu, "words": words, "rounds": measured}
    columns = [
        *("", "threads", "sentences/s", "words/s", "alone, p50 ms", "p99 ms", "BLEU", "memory, MiB", "start, s"),
    ]
    title = "Quality and speed of search, Multi30k, German to English"
    Report("frontier", title, columns, rows, NOTES, kept).publish(asked.save)
    if asked.figure:
        say(f"drawn: {draw(points, asked.figure)}")


if __name__ == "__main__":
    main()
