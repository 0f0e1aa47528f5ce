"""Speed of data preparation, compared with the tokenizers library on text in memory.

    python -m benchmarks.data.prepare_rate [--lines 60000] [--rounds 5] [--data DATASET] [--save]

The library splits and encodes lines that are already normalised, and its ids are dropped. We read files, normalise,
split, encode, remove empty and long pairs, and write arrays. One process, one thread, processor time, so that other
programs have little influence; the two alternate on the same lines. The ratio must be at least 0.8.
"""

import argparse
import os
import statistics
import tempfile
import time
from itertools import chain, islice
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"

from benchmarks.data.growth import write_data_set
from benchmarks.reporting import Report, say
from seq2seq.text import Tokenizer
from seq2seq.text.normalization import normalize
from seq2seq.text.vocabulary import pad_with_spaces
from training.data.dataset import Dataset, Row, open_dataset, read_rows
from training.data.prepare.encoding import Encoder, write_shard
from training.data.prepare.text_settings import text_config

NAMES = ("source", "target")
VOCABULARY = 8000
TAUGHT = 100_000  # maximum number of lines for learning the vocabularies


def library(tokenizers: list[Tokenizer], columns: list[list[str]]) -> float:
    """Seconds that the library takes for so many texts a field."""
    begun = time.process_time()
    for tokenizer, texts in zip(tokenizers, columns, strict=True):
        for start in range(0, len(texts), 500):
            tokenizer._rust.encode_batch_fast(texts[start : start + 500])
    return time.process_time() - begun


def ours(tokenizers: list[Tokenizer], dataset: Dataset, start: int, end: int, folder: Path) -> float:
    """Seconds for a shard of so many rows, read from the start of the files: earlier rows are read too, untimed."""
    rows = islice(read_rows(dataset, "train", NAMES), start, end)
    first = next(rows)
    begun = time.process_time()
    write_shard(folder, "train", None, NAMES, Encoder(tuple(tokenizers), 100), chain([first], rows), map)
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--data", help="a data set; else generated words")
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rate-") as name:
        folder = Path(name)
        dataset = open_dataset(asked.data or str(write_data_set(folder, asked.lines, 10)), asked.data_root)
        rows: list[Row] = list(islice(read_rows(dataset, "train", NAMES), asked.lines))
        configs = [text_config(dataset, field, "bpe", VOCABULARY) for field in NAMES]
        tokenizers = [
            Tokenizer.train((row.texts[column] for row in rows[:TAUGHT]), config)
            for column, config in enumerate(configs)
        ]
        share = len(rows) // asked.rounds
        measured: list[tuple[float, float]] = []
        for number in range(asked.rounds):
            start = number * share
            columns = [
                [
                    pad_with_spaces(config, normalize(row.texts[column], config).text)
                    for row in rows[start : start + share]
                ]
                for column, config in enumerate(configs)
            ]
            seconds = library(tokenizers, columns), ours(tokenizers, dataset, start, start + share, folder)
            measured.append((share / seconds[0], share / seconds[1]))
            say(f"round {number + 1}: {measured[-1][0]:,.0f} and {measured[-1][1]:,.0f} pairs/s")
    alone, prepared = (statistics.median(column) for column in zip(*measured, strict=True))
    ratio = statistics.median(one / other for other, one in measured)
    characters = sum(len(text) for row in rows for text in row.texts) / len(rows)
    Report(
        "prepare_rate",
        "Rate of preparing, one core",
        ["", "pairs/s, median", "each round"],
        [
            ["tokenizers alone, text in memory", f"{alone:,.0f}", " / ".join(f"{a:,.0f}" for a, _ in measured)],
            ["prepare: files to arrays", f"{prepared:,.0f}", " / ".join(f"{b:,.0f}" for _, b in measured)],
            ["ratio", f"{ratio:.2f}", " / ".join(f"{b / a:.2f}" for a, b in measured)],
        ],
        (
            f"{len(rows):,} pairs of {asked.data or 'generated words'}, {characters:.0f} characters a pair, "
            f"{VOCABULARY:,} subwords a side, {asked.rounds} rounds of {share:,} pairs, in which both take turns. One "
            "thread, seconds of the processor; the pass that encodes, without the learning of a vocabulary.",
        ),
        {"pairs_per_second": measured, "ratio": ratio, "characters_per_pair": characters},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
