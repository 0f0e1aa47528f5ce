"""Multi30k, German to English, as the compared toolkits read it: pieces of SentencePiece, separated by spaces.

    python frontier_data.py CORPORA FOLDER

CORPORA holds `multi30k/`; FOLDER gets, for source and target, the raw lines (`test.source`), the pieces
(`train.pieces.source`), a model of 6,000 pieces by BPE (`source.model`), as many units as our recipe's data set has,
and the vocabularies in the forms of OpenNMT-py and JoeyNMT.
"""

import gzip
import sys
from pathlib import Path

import sentencepiece

PIECES = 6_000
SIDES = {"source": "de", "target": "en"}
SPLITS = {"train": "train", "dev": "val", "test": "test_2016_flickr"}
SPECIAL = ["<unk>", "<pad>", "<s>", "</s>"]


def main(corpora: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for side, language in SIDES.items():
        for split, file in SPLITS.items():
            text = gzip.decompress((corpora / "multi30k" / f"{file}.{language}.gz").read_bytes())
            (folder / f"{split}.{side}").write_bytes(text)
        sentencepiece.SentencePieceTrainer.train(
            input=str(folder / f"train.{side}"),
            model_prefix=str(folder / side),
            model_type="bpe",
            vocab_size=PIECES,
            character_coverage=1.0,
            normalization_rule_name="identity",
            num_threads=1,
            minloglevel=1,
        )
        model = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.model"))
        for split in SPLITS:
            lines = (folder / f"{split}.{side}").read_text("utf-8").splitlines()
            pieces = (" ".join(model.encode(line, out_type=str)) for line in lines)
            (folder / f"{split}.pieces.{side}").write_text("".join(f"{line}\n" for line in pieces), "utf-8")
        units = [piece for piece in map(model.id_to_piece, range(len(model))) if piece not in SPECIAL]
        (folder / f"opennmt.{side}").write_text("".join(f"{unit}\t1\n" for unit in units), "utf-8")
        (folder / f"joeynmt.{side}").write_text("\n".join([*SPECIAL, *units]) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
