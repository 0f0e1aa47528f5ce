"""The bundle: a folder with a trained model. Loading it executes no code from it.

model.safetensors     weights, with the names of docs/parameters.md
model.json            the model card: architecture, recipe, scores, versions, and the checksums of the other files
tokenizer.NAME.json   one for each text source, and one for the target
shortlist.safetensors the words of every source token, if `interlinear shortlist` has made them
README.md             the card as Markdown, for people
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

from interlinear.bundle.model_card import FORMAT, Limits, ModelCard
from interlinear.bundle.precision import resolve_precision
from interlinear.bundle.readme import render_readme
from interlinear.config import KINDS, ModelConfig, Precision
from interlinear.errors import BundleError, UsageError
from interlinear.files import (
    CHECKSUM_KEY,
    ChecksumError,
    checksum,
    content_checksum,
    finish_file,
    read_checked_json,
    temporary_file,
)
from interlinear.models.ensemble import Ensemble
from interlinear.models.layers.int8 import quantise
from interlinear.models.layers.packed import pack
from interlinear.models.model import Model, build
from interlinear.models.parameter_shapes import parameter_shapes
from interlinear.models.protocol import EncoderDecoder
from interlinear.search.captured import fast_step
from interlinear.search.step import SearchStep, search_step
from interlinear.shortlist import Shortlist
from interlinear.text import Tokenizer

WEIGHTS, CARD, README, SHORTLIST = "model.safetensors", "model.json", "README.md", "shortlist.safetensors"

ModelT = TypeVar("ModelT", bound=EncoderDecoder, covariant=True)


@dataclass(frozen=True)
class Bundle(Generic[ModelT]):
    """A model or an ensemble with its tokenizers, its card, and the folder that it was loaded from.

    shortlist: limits the tokens of its search; None: the whole vocabulary. search_step: the function that takes a step
    of its search; another one where it is compiled or captured.
    """

    model: ModelT
    tokenizers: dict[str, Tokenizer]
    card: ModelCard
    folder: Path
    shortlist: Shortlist | None = None
    search_step: SearchStep = search_step

    @property
    def takes_terms(self) -> bool:
        """Whether requests may prescribe how parts of their text are translated (`Request.terms`): not where a picture
        is the first source, whose attention would not place them, or where the output is a list of edit operations."""
        first_is_text = next(iter(self.card.model.sources)) in self.card.model.texts
        return first_is_text and self.tokenizers["target"].config.operations_on is None

    @property
    def is_compiled(self) -> bool:
        """Whether the steps of its search are compiled."""
        return self.search_step is not search_step


def hash_weights(state: dict[str, torch.Tensor]) -> str:
    """SHA-256 over names, dtypes, shapes and bytes of weights; independent of the file that stores them."""
    digest = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.view(torch.uint8).numpy().data if tensor.dim() else tensor.numpy().tobytes())
    return digest.hexdigest()


def write_bundle(folder: Path, model: Model, tokenizers: dict[str, Tokenizer], card: ModelCard) -> ModelCard:
    """Write a bundle to a temporary folder, then rename it to `folder`; returns the card with its checksums."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in unique_weights(model).items()}
        save_file(weights, temporary / WEIGHTS)
        for name, tokenizer in tokenizers.items():
            tokenizer.save(temporary / f"tokenizer.{name}.json")
        files = {path.name: checksum(path) for path in sorted(temporary.iterdir())}
        card = card.model_copy(update={"weights_sha256": hash_weights(weights), "files": files})
        card = card.model_copy(update={CHECKSUM_KEY: write_card(temporary, json.loads(card.model_dump_json()))})
        parameters = sum(map(torch.Tensor.numel, weights.values()))
        readme = render_readme(card, parameters, tokenizers["target"].config.operations_on)
        (temporary / README).write_text(readme, encoding="utf-8")
        for path in temporary.iterdir():
            finish_file(path)
        temporary.chmod(0o755)
        if folder.exists():
            old = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
            folder.rename(old / "bundle")
            temporary.rename(folder)
            shutil.rmtree(old)
        else:
            temporary.rename(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return card


def write_card(folder: Path, content: dict[str, Any]) -> str:
    """Write or replace a bundle's card in one step, with its own checksum, which is returned."""
    content = content | {CHECKSUM_KEY: content_checksum(content)}
    with temporary_file(folder / CARD) as temporary:
        temporary.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return str(content[CHECKSUM_KEY])


def add_shortlist(folder: Path, shortlist: Shortlist) -> None:
    """Add a shortlist to a bundle, or replace its own; its checksum is in the card.

    The bundle stays loadable if this is interrupted: the card does not name the file while that is replaced.
    """
    check_files(folder, shortlist=False)
    content = read_checked_json(folder / CARD, required=False)
    files = {name: value for name, value in content["files"].items() if name != SHORTLIST}
    if SHORTLIST in content["files"]:
        write_card(folder, content | {"files": files})
    with temporary_file(folder / SHORTLIST) as temporary:
        shortlist.save(temporary)
    write_card(folder, content | {"files": {**files, SHORTLIST: checksum(folder / SHORTLIST)}})


def unique_weights(model: Model) -> dict[str, torch.Tensor]:
    """The model's parameters by name; a shared parameter appears once, under its first name."""
    return dict(model.named_parameters())


def load(
    folder: Path | str, device: str = "cpu", precision: Precision = "fp32", shortlist: bool = False
) -> Bundle[Model]:
    """Load a bundle and verify every file against the card, the shortlist only if it is used.

    Raises BundleError naming the invalid file, and UsageError for a precision that the device does not have, or a
    shortlist that the bundle does not have, or on a GPU.

    `bf16` stores the weights in bf16 and computes in it, which is faster on processors with bf16 matrix products; an
    LSTM's cell state and log-probabilities stay in fp32. `int8` quantises the weights and computes products in int8,
    on any processor with AVX2 (`interlinear.models.layers.int8`); the model can then search but not train. `auto`: see
    `resolve_precision`. `shortlist`: search only among the tokens that the bundle's shortlist has for a sentence, on a
    CPU: each CUDA graph would keep a copy of these tokens' rows of the output layer, 13 GiB for 64 sentences.
    """
    folder = Path(folder)
    precision = resolve_precision(precision, device)
    if shortlist and torch.device(device).type not in ("cpu", "meta"):
        raise UsageError("--shortlist", f"it is for CPUs, and the device is {device}", "leave it out on a GPU")
    card = check_files(folder, shortlist)
    if shortlist and SHORTLIST not in card.files:
        raise UsageError(
            "--shortlist", f"{folder} has none", "make it with `interlinear shortlist`, or search without it"
        )
    check_shapes(folder / WEIGHTS, card.model)
    try:
        weights = load_file(folder / WEIGHTS)
    except (SafetensorError, OSError) as error:
        raise _unreadable(folder / WEIGHTS, error) from None
    if hash_weights(weights) != card.weights_sha256:
        raise BundleError(
            str(folder / WEIGHTS), "the weights are not those of model.json (weights_sha256)", "copy the folder again"
        )
    model = build(card.model)
    model.load_state_dict(weights, strict=False)  # a shared matrix is stored once, under its first name
    names = [*card.model.texts, "target"]
    tokenizers = {name: Tokenizer.load(folder / f"tokenizer.{name}.json") for name in names}
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    model = model.to(device, dtype).eval()
    if precision == "int8" and model.output.weight.device.type == "cpu":
        quantise(model)
    elif model.output.weight.device.type == "cpu":
        pack(model)
    return Bundle(
        model, tokenizers, card, folder, Shortlist.load(folder / SHORTLIST, tokenizers) if shortlist else None
    )


def with_compiled_search(bundle: Bundle[ModelT]) -> Bundle[ModelT]:
    """The same bundle, whose search is compiled when it first takes a step; on a GPU, it is captured too."""
    return replace(bundle, search_step=fast_step(next(bundle.model.parameters()).device))


def check_files(folder: Path, shortlist: bool = True) -> ModelCard:
    """Verify that all files of a bundle exist and have the checksums in its card; returns the card.

    `shortlist`: the shortlist too, if there is one. Raises BundleError naming the invalid file.
    """
    card = read_card(folder)
    for name in [WEIGHTS, *(f"tokenizer.{field}.json" for field in [*card.model.texts, "target"])]:
        if name not in card.files:
            raise BundleError(str(folder / CARD), f"it has no checksum of {name} (files)", "copy the file again")
    for name, expected in card.files.items():
        if name == SHORTLIST and not shortlist:
            continue
        if Path(name).name != name:
            raise BundleError(str(folder / CARD), f"its files are not all in its folder ({name!r})", "do not use it")
        if not (folder / name).is_file():
            raise BundleError(str(folder / name), "the file is missing from the bundle", "copy the whole folder again")
        try:
            actual = checksum(folder / name)
        except OSError as error:
            raise _unreadable(folder / name, error) from None
        if actual != expected:
            raise BundleError(
                str(folder / name), "the file is not what model.json says (another checksum)", "copy it again"
            )
    return card


def check_shapes(path: Path, config: ModelConfig) -> None:
    """Compare the shapes in a weight file's header with the architecture's, without allocating tensors.

    Raises BundleError for a parameter that is missing in one of them or differs in shape.
    """
    try:
        with safe_open(path, "pt") as file:
            stored = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise _unreadable(path, error) from None
    try:
        expected = parameter_shapes(config)
    except (RuntimeError, OverflowError, TypeError) as error:  # sizes that overflow
        reason = str(error).partition("\n")[0]
        raise BundleError(str(path.parent / CARD), f"no model has the sizes of its architecture ({reason})") from None
    for name in sorted(stored.keys() | expected.keys()):
        if stored.get(name) != expected.get(name):
            sizes = [
                " x ".join(map(str, shapes[name])) if name in shapes else "not there" for shapes in (stored, expected)
            ]
            raise BundleError(
                str(path),
                f"the weights do not fit the architecture in model.json ('{name}' is {sizes[0]}, and by the "
                f"architecture {sizes[1]})",
                "copy the whole folder again",
            )


def _unreadable(path: Path, error: Exception) -> BundleError:
    return BundleError(str(path), f"the file cannot be read ({error})", "copy it again")


def ensemble_bundle(bundles: Sequence[Bundle[Model]]) -> Bundle[Ensemble]:
    """Combine bundles into one whose model is their ensemble; its card is the first one's without scores.

    The limits are the smallest of all members. If all members have a shortlist, theirs is the union; members without
    one are searched in the whole vocabulary, all together. Raises BundleError unless all read the same sources, images
    in the same form, and all tokenizer files are identical.
    """
    first, *others = bundles
    files = [f"tokenizer.{name}.json" for name in [*first.card.model.texts, "target"]]
    for other in others:
        check_same_sources(first, other)
        for file in files:
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
    shortlists = [bundle.shortlist for bundle in bundles if bundle.shortlist]
    shortlist = Shortlist.union(shortlists) if len(shortlists) == len(bundles) else None
    return Bundle(model, first.tokenizers, card, first.folder, shortlist)


def check_same_sources(first: Bundle[Model], other: Bundle[Model]) -> None:
    """Raises BundleError where two members of an ensemble differ in the names of their sources, or in the form of an
    image."""
    if set(first.card.model.sources) != set(other.card.model.sources):
        raise BundleError(
            str(other.folder),
            f"an ensemble's models read the same sources: this one reads {', '.join(other.card.model.sources)}, and "
            f"{first.folder} {', '.join(first.card.model.sources)}",
            "combine models of the same sources",
        )
    for name, grid in first.card.model.images.items():
        own = other.card.model.images[name]
        if own != grid:
            forms = " and ".join(f"{one} by {one.made_by or 'its own network'}" for one in (own, grid))
            raise BundleError(
                str(other.folder),
                f"an ensemble's models read images in the same form, and this is another than {first.folder}'s: "
                f"'{name}' is {forms}",
                "train the models on the same features, or with networks of the same kind and size",
            )


def initialize_from(model: Model, folder: Path) -> str:
    """Copy a trained model's weights into a new model that extends it.

    Returns a message with the number of copied parameters and the names of the parameters that keep their initial
    values.
    Raises BundleError unless the new model has every parameter of the trained one, with the same name and shape.
    """
    trained, parameters = unique_weights(load(folder).model), unique_weights(model)
    if unknown := sorted(set(trained) - set(parameters)):
        raise BundleError(
            f"init_from {folder}",
            f"the model is of another system: the recipe's model has no {_shorten(unknown)}",
            "start from a model whose recipe this one extends",
        )
    for name, weight in trained.items():
        if weight.shape != parameters[name].shape:
            sizes = [" x ".join(map(str, shape)) for shape in (weight.shape, parameters[name].shape)]
            raise BundleError(
                f"init_from {folder}",
                f"the model is of another size: {name} is {sizes[0]}, and the recipe's is {sizes[1]}",
                "set the recipe's sizes to the model's (`interlinear info` shows them)",
            )
    with torch.no_grad():
        for name, weight in trained.items():
            parameters[name].copy_(weight)
    initial = sorted(set(parameters) - set(trained))
    return f"started from {folder}: {len(trained)} parameters loaded; drawn anew: {', '.join(initial) or 'none'}"


def _shorten(names: list[str]) -> str:
    """The first three names, and the number of the others."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def read_readme(folder: Path) -> str:
    """The text of README.md; empty if the bundle has none."""
    path = folder / README
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""


def read_card(folder: Path) -> ModelCard:
    """Read a bundle's card without its weights. Raises BundleError."""
    path = folder / CARD
    if not path.is_file():
        raise BundleError(str(folder), f"this is no bundle: there is no {CARD} in it", "name the folder that holds it")
    try:
        content = read_checked_json(path, required=False)
        if (version := content.get("format")) != FORMAT:
            raise BundleError(
                str(path),
                f"the bundle has format {version}, and this version reads format {FORMAT}",
                "use the version of interlinear that wrote it",
            )
        return ModelCard.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"] if part not in KINDS)  # the tag of the union of configs
        raise BundleError(str(path), f"{key}: {first['msg']}", "copy the file again") from None
    except ChecksumError as error:
        remedy = f"copy the file again; if it was edited on purpose, remove {CHECKSUM_KEY} from it"
        raise BundleError(str(path), str(error), remedy) from None
    except (ValueError, OSError) as error:
        raise _unreadable(path, error) from None
