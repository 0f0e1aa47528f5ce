"""Multi30k in our own recipe's subwords, as OpenNMT-py reads it, and its outputs as text again; run by our environment.

    python multi30k_data.py write DATA FOLDER [CORPORA]       DATA: multi30k-en-de, multi30k-en-fr, multi30k-de-en
    python multi30k_data.py decode FOLDER IDS.txt OUTPUT.gz

A token is the number of a piece of `rnnsearch`'s vocabulary on that data set. FOLDER gets the prepared data, for every
split the tokens of source and target (`dev.source`), and the vocabularies (`source.vocabulary`).
"""

import gzip
import sys
from pathlib import Path

from interlinear.text.config import END
from training.data.dataset import open_dataset, read_rows
from training.data.prepare.prepared import PreparedData
from training.recipe import load_recipe
from training.runs.job import prepare_data

FIELDS = ("source", "target")
SPLITS = ("train", "dev", "test", "test_2017")


def write(data: str, folder: Path, corpora: Path | None) -> None:
    dataset = open_dataset(data, corpora)
    recipe = load_recipe("rnnsearch", defaults=dataset.defaults)
    prepared = prepare_data(recipe, dataset, folder / "prepared", progress=False)
    (folder / "prepared" / "newest").write_text(str(prepared.folder), "utf-8")
    tokenizers = prepared.tokenizers
    for field in FIELDS:
        units = "".join(f"{number}\t1\n" for number in range(END + 1, tokenizers[field].size))
        (folder / f"{field}.vocabulary").write_text(units, "utf-8")
    for split in SPLITS:
        rows = list(read_rows(dataset, split, list(FIELDS)))
        for column, field in enumerate(FIELDS):
            ids = (tokenizers[field].encode(row.texts[column]).ids for row in rows)
            lines = "".join(" ".join(map(str, line)) + "\n" for line in ids)
            (folder / f"{split}.{field}").write_text(lines, "utf-8")


def decode(folder: Path, ids: Path, output: Path) -> None:
    tokenizer = PreparedData.load(Path((folder / "prepared" / "newest").read_text("utf-8"))).tokenizers["target"]
    lines = ids.read_text("utf-8").splitlines()
    texts = [tokenizer.decode([int(token) for token in line.split() if token.isdecimal()]) for line in lines]
    output.parent.mkdir(parents=True, exist_ok=True)
    content = "".join(f"{text}\n" for text in texts).encode()
    output.write_bytes(gzip.compress(content, mtime=0))


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]) if len(sys.argv) > 4 else None)
    else:
        decode(Path(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
