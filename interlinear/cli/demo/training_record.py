"""Record of the demo's last training, from which a second run decides whether to train again."""

import hashlib
import json
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from training.yaml_files import PACKAGE, resource_folder

# The inputs of a trained model, besides the recipes; of `interlinear` all but these.
MODEL_PACKAGES, OTHERS = ("interlinear", "training"), ("cli", "documents", "translation")


@dataclass(frozen=True)
class TrainingRecord:
    """The demo's last training: a hash of the code, and the registered version."""

    code: str
    version: str

    @classmethod
    def read(cls, path: Path) -> "TrainingRecord":
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


def code_hash() -> str:
    """SHA-256 of everything that a trained model depends on: code, recipes, data sets, and torch's version."""
    digest = hashlib.sha256(version("torch").encode())
    folders = [
        *(PACKAGE.parent / package for package in MODEL_PACKAGES),
        resource_folder("recipes"),
        resource_folder("corpora"),
    ]
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            other = folder.name == "interlinear" and path.relative_to(folder).parts[0] in OTHERS
            if path.suffix in (".py", ".yaml", ".gz") and not other:
                digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
