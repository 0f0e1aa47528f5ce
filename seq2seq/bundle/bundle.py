"""The bundle: a trained model as a folder, loaded without running any code from it.

model.safetensors     weights by the names of docs/parameters.md
model.json            the card: architecture, recipe, scores, versions, and the checksum of every other file
tokenizer.NAME.json   one for every text source, and for the target
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from seq2seq.bundle.checksums import CHECKSUM_KEY, ChecksumError, checksum, content_checksum, read_checked_json
from seq2seq.bundle.model_card import render_readme
from seq2seq.config import ModelConfig, Precision
from seq2seq.errors import BundleError
from seq2seq.metrics.score import Score
from seq2seq.model.ensemble import Ensemble, Predictor
from seq2seq.model.model import Model, build
from seq2seq.model.parameter_shapes import parameter_shapes
from seq2seq.search import SearchOptions
from seq2seq.text import Tokenizer

FORMAT = 1
WEIGHTS, CARD, README = "model.safetensors", "model.json", "README.md"

Task = Literal["translation", "summarization", "multimodal", "post-edit"]


class Limits(BaseModel):
    """The longest source that is accepted and the longest output that is written, in the vocabularies' units."""

    source_length: int = Field(200, ge=1)
    target_length: int = Field(400, ge=1)


class ModelCard(BaseModel):
    """What `model.json` says of a model."""

    model_config = ConfigDict(extra="ignore")

    format: int = Field(FORMAT, ge=1, strict=True)
    task: Task = "translation"
    languages: dict[str, str] = Field({}, description="language code of every source and of the target")
    model: ModelConfig
    search: SearchOptions = Field(SearchOptions(), description="what the recipe searches with")
    limits: Limits = Limits()
    recipe: dict[str, Any] = Field({}, description="how the model was made: a record, read by nobody")
    data: dict[str, Any] = Field({}, description="name and fingerprints of the data: a record")
    metrics: dict[str, Score] = {}
    examples: list[dict[str, str]] = Field([], description="texts of the dev set, by the name of the source")
    git_commit: str | None = None
    versions: dict[str, str] = {}
    created: str = ""
    weights_sha256: str = Field("", description="of the weights themselves (`hash_weights`), not of their file")
    files: dict[str, str] = Field({}, description="SHA-256 of the other files, but for README.md")
    content_sha256: str = Field("", description="of the card itself without this key; cards of before have none")

    @property
    def direction(self) -> str:
        """Its languages in words, as `de to en`, or `en and de to de`; empty where none is known."""
        sources = [code for field, code in self.languages.items() if field != "target"]
        return " to ".join(filter(None, [" and ".join(sources), self.languages.get("target")]))

    @property
    def dev_search(self) -> str:
        """What the dev scores by search are of, as `1,014 sentences, beam 1`; empty where that is not recorded."""
        sentences, beam = self.data.get("dev_sentences"), self.recipe.get("training", {}).get("dev_beam")
        return f"{sentences:,} sentences, beam {beam}" if sentences and beam else ""


PredictorT = TypeVar("PredictorT", bound=Predictor, covariant=True)


@dataclass(frozen=True)
class Bundle(Generic[PredictorT]):
    """A model, or an ensemble, with all that it needs to read and write text."""

    model: PredictorT
    tokenizers: dict[str, Tokenizer]
    card: ModelCard
    folder: Path


def hash_weights(state: dict[str, torch.Tensor]) -> str:
    """SHA-256 of weights by name, shape and bytes: equal for equal weights, however they are stored."""
    digest = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.view(torch.uint8).numpy().data if tensor.dim() else tensor.numpy().tobytes())
    return digest.hexdigest()


def write_bundle(folder: Path, model: Model, tokenizers: dict[str, Tokenizer], card: ModelCard) -> ModelCard:
    """Write a bundle to a new name beside `folder`, then put it in its place; returns the card with its checksums."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in unique_weights(model).items()}
        save_file(weights, draft / WEIGHTS)
        for name, tokenizer in tokenizers.items():
            tokenizer.save(draft / f"tokenizer.{name}.json")
        files = {path.name: checksum(path) for path in sorted(draft.iterdir())}
        card = card.model_copy(update={"weights_sha256": hash_weights(weights), "files": files, CHECKSUM_KEY: ""})
        content = json.loads(card.model_dump_json())
        card = card.model_copy(update={CHECKSUM_KEY: content_checksum(content)})
        parameters = sum(map(torch.Tensor.numel, weights.values()))
        written = render_readme(card, parameters, tokenizers["target"].config.operations_on)
        (draft / README).write_text(written, encoding="utf-8")
        (draft / CARD).write_text(
            json.dumps(content | {CHECKSUM_KEY: card.content_sha256}, indent=2) + "\n", encoding="utf-8"
        )
        for path in draft.iterdir():
            fsync(path)
        draft.chmod(0o755)
        if folder.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
            folder.rename(old / "bundle")
            draft.rename(folder)
            shutil.rmtree(old)
        else:
            draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return card


def add_scores(bundle: Bundle[Predictor], scores: Mapping[str, Score]) -> str:
    """Write a bundle's card for people anew, with further scores by their titles; returns it. The card for programs
    stays as the training wrote it."""
    card = bundle.card.model_copy(update={"metrics": {**bundle.card.metrics, **scores}})
    parameters = sum(map(torch.Tensor.numel, bundle.model.parameters()))
    text = render_readme(card, parameters, bundle.tokenizers["target"].config.operations_on)
    (bundle.folder / README).write_text(text, encoding="utf-8")
    return text


def unique_weights(model: Model) -> dict[str, torch.Tensor]:
    """The model's weights by name, each once where several names share it."""
    return dict(model.named_parameters())


def load(folder: Path | str, device: str = "cpu", precision: Precision = "fp32") -> Bundle[Model]:
    """Load a bundle; every file is checked against the card. Raises BundleError with the file that is at fault.

    `bf16` keeps the weights in half the bytes, and computes in them: faster where the processor has such products;
    an LSTM's memory and log-probabilities stay in fp32.
    """
    folder = Path(folder)
    card = check_files(folder)
    check_shapes(folder / WEIGHTS, card.model)
    try:
        weights = load_file(folder / WEIGHTS)
    except (SafetensorError, OSError) as error:
        raise _unreadable(folder / WEIGHTS, error) from None
    if card.weights_sha256 and hash_weights(weights) != card.weights_sha256:
        raise BundleError(
            str(folder / WEIGHTS), "the weights are not those of model.json (weights_sha256)", "copy the folder again"
        )
    model = build(card.model)
    model.load_state_dict(weights, strict=False)  # a shared matrix is stored once, under its first name
    names = [*card.model.texts, "target"]
    tokenizers = {name: Tokenizer.load(folder / f"tokenizer.{name}.json") for name in names}
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    return Bundle(model.to(device, dtype).eval(), tokenizers, card, folder)


def check_files(folder: Path) -> ModelCard:
    """The card, when every file that a model is loaded from is there and is the one that the card names.

    Raises BundleError with the file that is at fault.
    """
    card = read_card(folder)
    for name in [WEIGHTS, *(f"tokenizer.{field}.json" for field in [*card.model.texts, "target"])]:
        if name not in card.files:
            raise BundleError(str(folder / CARD), f"it has no checksum of {name} (files)", "copy the file again")
    for name, expected in card.files.items():
        if Path(name).name != name:
            raise BundleError(str(folder / CARD), f"its files are not all in its folder ({name!r})", "do not use it")
        if not (folder / name).is_file():
            raise BundleError(str(folder / name), "the file is missing from the bundle", "copy the whole folder again")
        try:
            found = checksum(folder / name)
        except OSError as error:
            raise _unreadable(folder / name, error) from None
        if found != expected:
            raise BundleError(
                str(folder / name), "the file is not what model.json says (another checksum)", "copy it again"
            )
    return card


def check_shapes(path: Path, config: ModelConfig) -> None:
    """Compare what the header of a file of weights says with a model's architecture; nothing is allocated for either.

    Raises BundleError for a parameter that only one of them has, or that has another size.
    """
    try:
        with safe_open(path, "pt") as file:
            found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise _unreadable(path, error) from None
    try:
        wanted = parameter_shapes(config)
    except (RuntimeError, OverflowError, TypeError) as error:  # more numbers than can be counted
        reason = str(error).partition("\n")[0]
        raise BundleError(str(path.parent / CARD), f"no model has the sizes of its architecture ({reason})") from None
    for name in sorted(found.keys() | wanted.keys()):
        if found.get(name) != wanted.get(name):
            sizes = [" x ".join(map(str, of[name])) if name in of else "not there" for of in (found, wanted)]
            raise BundleError(
                str(path),
                f"the weights do not fit the architecture in model.json ('{name}' is {sizes[0]}, and by the "
                f"architecture {sizes[1]})",
                "copy the whole folder again",
            )


def _unreadable(path: Path, error: Exception) -> BundleError:
    return BundleError(str(path), f"the file cannot be read ({error})", "copy it again")


def ensemble_bundle(bundles: Sequence[Bundle[Model]]) -> Bundle[Ensemble]:
    """Several bundles as one, whose model is their ensemble; what else it says is the first one's, but for scores.

    Their vocabularies must be the same, file by file. Raises BundleError.
    """
    first, *others = bundles
    files = [f"tokenizer.{name}.json" for name in [*first.card.model.texts, "target"]]
    for other in others:
        theirs = [f"tokenizer.{name}.json" for name in [*other.card.model.texts, "target"]]
        for file in dict.fromkeys([*files, *theirs]):
            if first.card.files.get(file) != other.card.files.get(file):
                raise BundleError(
                    str(other.folder / file),
                    f"an ensemble has one vocabulary, and this is another than {first.folder}'s",
                    "train the models on the same data with the same text settings",
                )
    limits = Limits(
        source_length=min(bundle.card.limits.source_length for bundle in bundles),
        target_length=min(bundle.card.limits.target_length for bundle in bundles),
    )
    card = first.card.model_copy(update={"limits": limits, "metrics": {}, "weights_sha256": "", CHECKSUM_KEY: ""})
    model = Ensemble([bundle.model for bundle in bundles]).eval()
    return Bundle(model, first.tokenizers, card, first.folder)


def initialize_from(model: Model, folder: Path) -> str:
    """Give a new model the weights of a trained one that it extends; says how many, and which it has of its own.

    Every parameter of the trained model must have a place in the new one, by name and shape: a bundle of another
    system or size is refused. Raises BundleError.
    """
    trained, own = unique_weights(load(folder).model), unique_weights(model)
    if foreign := sorted(set(trained) - set(own)):
        raise BundleError(
            f"init_from {folder}",
            f"the model is of another system: the recipe's model has no {_shorten(foreign)}",
            "start from a model whose recipe this one extends",
        )
    for name, weight in trained.items():
        if weight.shape != own[name].shape:
            sizes = [" x ".join(map(str, shape)) for shape in (weight.shape, own[name].shape)]
            raise BundleError(
                f"init_from {folder}",
                f"the model is of another size: {name} is {sizes[0]}, and the recipe's is {sizes[1]}",
                "set the recipe's sizes to the model's (`interlinear info` shows them)",
            )
    with torch.no_grad():
        for name, weight in trained.items():
            own[name].copy_(weight)
    fresh = sorted(set(own) - set(trained))
    return f"started from {folder}: {len(trained)} parameters loaded; drawn anew: {', '.join(fresh) or 'none'}"


def _shorten(names: list[str]) -> str:
    """The first names of a list."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def read_readme(folder: Path) -> str:
    """The card for people; empty where a bundle has none."""
    path = folder / README
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def read_card(folder: Path) -> ModelCard:
    """The card alone: what a bundle is, without its weights."""
    path = folder / CARD
    if not path.is_file():
        raise BundleError(str(folder), f"this is no bundle: there is no {CARD} in it", "name the folder that holds it")
    try:
        content = read_checked_json(path)
        version = content.get("format", FORMAT)
        if isinstance(version, int) and version > FORMAT:
            raise BundleError(
                str(path),
                f"the bundle has format {version}, and this version reads up to {FORMAT}",
                "update interlinear",
            )
        return ModelCard.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise BundleError(str(path), f"{key}: {first['msg']}", "copy the file again") from None
    except ChecksumError as error:
        remedy = f"copy the file again; if it was edited on purpose, remove {CHECKSUM_KEY} from it"
        raise BundleError(str(path), str(error), remedy) from None
    except (ValueError, OSError) as error:
        raise _unreadable(path, error) from None


def fsync(path: Path) -> None:
    """Have a file, or a folder's entries, on disk before going on."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
