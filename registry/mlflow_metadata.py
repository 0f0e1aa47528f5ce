"""What MLflow is told of a bundle: tags to look for, what goes in and comes out, an example, what it needs."""

from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema, TensorSpec

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.models import ModelSignature

    from seq2seq.bundle import ModelCard


_EXAMPLES = {"de": "Guten Morgen.", "en": "Good morning.", "fr": "Bonjour.", "zh": "早上好。"}


def model_tags(card: "ModelCard") -> dict[str, str]:
    """What one looks for in a list of models; the whole record lies in the bundle's model.json."""
    tags = {
        "task": card.task,
        "languages": "-".join(dict.fromkeys(card.languages.values())),
        "recipe": card.recipe.get("name"),
        "dataset": card.data.get("name"),
        "git_commit": card.git_commit,
        "weights_sha256": card.weights_sha256,
    }
    if bleu := card.metrics.get("dev_bleu"):
        tags |= {"dev_bleu": f"{bleu.score:.2f}", "dev_bleu_signature": bleu.signature, "dev_bleu_of": card.dev_search}
    return {key: str(value) for key, value in tags.items() if value}


def model_signature(card: "ModelCard") -> "ModelSignature":
    """Texts in, texts out. One source has no name, so that a plain list of texts will do; several are named columns, of
    which any but one may be left out, and pictures are the bytes of their files."""
    from mlflow.models import ModelSignature  # needs pandas, as an example does, which mlflow-skinny does not bring

    kinds = {name: DataType.string if name in card.model.texts else DataType.binary for name in card.model.sources}
    columns: list[ColSpec | TensorSpec] = (
        [ColSpec(kind, name, required=False) for name, kind in kinds.items()]
        if len(kinds) > 1
        else [ColSpec(DataType.string)]
    )
    return ModelSignature(
        inputs=Schema(columns),
        outputs=Schema([ColSpec(DataType.string)]),
        params=ParamSchema([ParamSpec("beam_size", DataType.long, card.search.beam)]),
    )


def input_example(card: "ModelCard") -> "pd.DataFrame":
    """One row of texts in the source's language, of the card where it has some, so that it says what goes in."""
    import pandas as pd

    own = next(iter(card.examples), {})
    return pd.DataFrame(
        {name: [own.get(name) or _EXAMPLES.get(card.languages.get(name, ""), "1 2 3")] for name in card.model.texts}
    )


def pip_requirements() -> list[str]:
    """This project, where it is installed, and what a bundle is read with, each at the version that made it."""
    found = []
    for package in ("interlinear", "mlflow", "torch", "tokenizers", "safetensors", "pydantic", "numpy", "pillow"):
        with suppress(PackageNotFoundError):
            found.append(f"{package}=={version(package).partition('+')[0]}")
    return found
