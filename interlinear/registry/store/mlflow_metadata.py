"""MLflow metadata of a bundle: tags, signature, input example and requirements."""

import json
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, distribution, version
from typing import TYPE_CHECKING

from mlflow.types import ColSpec, DataType, ParamSchema, ParamSpec, Schema, TensorSpec

from interlinear.bundle.readme import usage_commands
from interlinear.installation import DISTRIBUTION
from interlinear.registry.names import CHAMPION

if TYPE_CHECKING:
    import pandas as pd
    from mlflow.models import ModelSignature

    from interlinear.bundle import ModelCard


_EXAMPLES = {"de": "Guten Morgen.", "en": "Good morning.", "fr": "Bonjour.", "zh": "早上好。"}


SHORTLIST_TAG = "shortlist_sha256"


def model_tags(card: "ModelCard") -> dict[str, str]:
    """Tags for searching in a list of models; the complete record is in the bundle's model.json."""
    tags = {
        "task": card.task,
        "languages": "-".join(dict.fromkeys(card.languages.values())),
        "recipe": card.recipe.get("name"),
        "dataset": card.data.get("name"),
        "git_commit": card.git_commit,
        "weights_sha256": card.weights_sha256,
        SHORTLIST_TAG: card.files.get("shortlist.safetensors"),
    }
    if bleu := card.metrics.get("dev_bleu"):
        tags |= {"dev_bleu": str(bleu.score), "dev_bleu_signature": bleu.signature, "dev_bleu_of": card.dev_search}
    return {key: str(value) for key, value in tags.items() if value}


def registered_model_description(name: str, tags: Mapping[str, str], store: str) -> str:
    """The description of a registered model, in Markdown, for the registry's page; `tags`: of its first version."""
    about = f"{tags.get('task', 'translation')}, {tags.get('languages', 'languages not stated')}".capitalize()
    return "\n".join(
        [
            f"{about}. The alias `{CHAMPION}` is what is served; the description of a version is its model card.",
            "",
            *(f"    {command}" for command in usage_commands(f"models:/{name}@{CHAMPION}", name, store)),
        ]
    )


def model_signature(card: "ModelCard") -> "ModelSignature":
    """The signature: texts in, texts out. A single source has no name, so that a plain list of texts is accepted;
    several sources are named columns, of which all but one may be missing. Images are the bytes of their files."""
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
    """One row of texts in the sources' languages, from the card where it has examples."""
    import pandas as pd

    example = next(iter(card.examples), {})
    return pd.DataFrame(
        {name: [example.get(name) or _EXAMPLES.get(card.languages.get(name, ""), "1 2 3")] for name in card.model.texts}
    )


def pip_requirements() -> list[str]:
    """The packages that load a bundle, each at the installed version; this project, where it is installed, by the
    address from which pip took it, since its name on a package index may be anybody's."""
    requirements = []
    with suppress(PackageNotFoundError):
        origin = distribution(DISTRIBUTION).read_text("direct_url.json")
        at = f" @ {json.loads(origin)['url']}" if origin else f"=={version(DISTRIBUTION)}"
        requirements.append(f"{DISTRIBUTION}{at}")
    for package in ("mlflow", "torch", "tokenizers", "safetensors", "pydantic", "numpy", "pillow"):
        with suppress(PackageNotFoundError):
            requirements.append(f"{package}=={version(package).partition('+')[0]}")
    return requirements
