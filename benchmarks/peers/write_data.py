"""Parallel text of the size that the comparison trains on: 20,000 / 64 / 640 pairs over 7,996 words.

Words have natural frequencies (a few very often, most rarely), about 18.5 a sentence; each word's translation is
another word of the same vocabulary, in the same position. The data is for timing; it is easy to learn.

    python write_data.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np

WORDS = 7_996  # and four special symbols: 8,000
SPLITS = {"train": 20_000, "dev": 64, "test": 640}
SPECIAL = ["<unk>", "<pad>", "<s>", "</s>"]


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    words = [f"w{i}" for i in range(WORDS)]
    translation = random.permutation(WORDS)
    frequency = 1 / (np.arange(WORDS) + 10.0)
    frequency /= frequency.sum()
    for split, pairs in SPLITS.items():
        with (folder / f"{split}.source").open("w") as source, (folder / f"{split}.target").open("w") as target:
            for _ in range(pairs):
                length = int(np.clip(random.normal(19, 4), 8, 30))
                sentence = random.choice(WORDS, length, p=frequency)
                print(" ".join(words[i] for i in sentence), file=source)
                print(" ".join(words[translation[i]] for i in sentence), file=target)
    (folder / "opennmt.vocabulary").write_text("".join(f"{word}\t1\n" for word in words))
    (folder / "vocabulary.txt").write_text("\n".join([*SPECIAL, *words]) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
