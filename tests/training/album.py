"""A small data set with images: each image has one colour, and the caption names it."""

import io
import tarfile
from pathlib import Path

import numpy as np
import yaml
from PIL import Image
from safetensors.numpy import save_file

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "grey": (99, 99, 99)}
GERMAN = {"red": "rot", "green": "grün", "blue": "blau", "grey": "grau"}


def picture(colour: str, size: int = 20) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (size, size + 4), COLOURS[colour]).save(file, "PNG")
    return file.getvalue()


def write_tar(path: Path, members: dict[str, bytes], mode: str = "w") -> None:
    with tarfile.open(path, mode) as archive:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))


def write_features(path: Path, features: np.ndarray, rows: int, columns: int, weights: str = "abc") -> None:
    """A file in the format that `interlinear features` writes."""
    made = {"network": "small", "size": "64", "weights_sha256": weights, "rows": str(rows), "columns": str(columns)}
    save_file({"features": features}, path, made)


def write_album(
    folder: Path, train: int = 12, pictured: tuple[int, ...] = (0, 2, 3, 7), mode: str = "tar", **image: object
) -> Path:
    """A description beside its files. Line i of a split has colour i mod 4; lines in `pictured` have images, and dev (4
    lines) has one for its line 1. Files: SPLIT.en, .de, .mt (every third line is empty)."""
    names = list(COLOURS)
    members, index = {}, []
    for split, count, lines in (("train", train, pictured), ("dev", 4, (1,))):
        colours = [names[i % 4] for i in range(count)]
        (folder / f"{split}.en").write_text("".join(f"A {c} dog {i}.\n" for i, c in enumerate(colours)))
        (folder / f"{split}.de").write_text("".join(f"Ein Hund {i}, {GERMAN[c]}.\n" for i, c in enumerate(colours)))
        (folder / f"{split}.mt").write_text(
            "".join(f"Hund {GERMAN[c]}\n" if i % 3 else "\n" for i, c in enumerate(colours))
        )
        for line in lines:
            members[f"{split}{line}.png"] = picture(names[line % 4])
            index.append(f"{split}\t{line}\t{split}{line}.png\tsomething more")
    (folder / "index.tsv").write_text("".join(f"{row}\n" for row in index))
    if mode == "tar":
        write_tar(folder / "images.tar", members)
    else:
        (folder / "images").mkdir()
        for name, data in members.items():
            (folder / "images" / name).write_bytes(data)
    described = {"images": "images.tar" if mode == "tar" else "images", "index": "index.tsv", **image}
    fields = lambda split: {"source": f"{split}.en", "mt": f"{split}.mt", "image": described, "target": f"{split}.de"}  # noqa: E731
    description = {
        "task": "multimodal", "about": "dogs", "licence": "none", "languages": {"source": "en", "target": "de"},
        "splits": {"train": fields("train"), "dev": fields("dev")},
    }  # fmt: skip
    path = folder / "album.yaml"
    path.write_text(yaml.safe_dump(description, allow_unicode=True, sort_keys=False))
    return path
