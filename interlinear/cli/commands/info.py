"""`interlinear info`: parameters and other facts about a recipe or a model, and what is known of a word aligner."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interlinear.cli.console import status
from interlinear.cli.options import Json, Tracking
from interlinear.errors import UsageError

if TYPE_CHECKING:
    from interlinear.config import ImageGrid, ModelConfig

UNCHANGEABLE = "--set, --vocabulary and --grid are for recipes"


@dataclass(frozen=True)
class Facts:
    """The facts to print: parameters by part, and further lines as (name, value)."""

    parts: dict[str, int]
    weights_sha256: str | None = None
    lines: list[tuple[str, str]] = field(default_factory=list)

    @property
    def total(self) -> int:
        """The number of all parameters; shared ones count once."""
        return sum(self.parts.values())


def info(
    recipe_or_model: Annotated[
        str,
        typer.Argument(
            metavar="RECIPE|MODEL",
            show_default=False,
            help="A recipe's name or YAML, a model, or an aligner's folder (align --save).",
        ),
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", show_default=False, help="Change a key of the recipe."),
    ] = None,
    vocabulary: Annotated[
        str | None,
        typer.Option(
            metavar="N,...,N",
            show_default=False,
            help="Vocabulary sizes of a recipe: each source's, then the target's.",
        ),
    ] = None,
    grid: Annotated[
        str | None,
        typer.Option(
            metavar="ROWSxCOLUMNSxFEATURES",
            show_default=False,
            help="Shape of a recipe's image features, if they come with the data.",
        ),
    ] = None,
    as_json: Json = False,
    tracking: Tracking = None,
) -> None:
    """Print parameters by part, inputs, vocabularies and scores of a recipe or a model.

    Of a word aligner: the pairs and words that it has learned from, its date, and its size.
    """
    from interlinear.alignment.stored_aligner import is_word_aligner

    changed = settings or vocabulary or grid
    if is_word_aligner(Path(recipe_or_model)):
        if changed:
            raise UsageError(recipe_or_model, "it is a word aligner", UNCHANGEABLE)
        print_aligner(Path(recipe_or_model), as_json)
        return
    if recipe_or_model.startswith(("models:", "runs:")) or Path(recipe_or_model).is_dir():
        if changed:
            raise UsageError(recipe_or_model, "a trained model cannot be changed", UNCHANGEABLE)
        facts = model_facts(recipe_or_model, tracking)
    else:
        facts = recipe_facts(recipe_or_model, settings or [], vocabulary, grid)
    if as_json:
        parameters = {"total": facts.total, "parts": facts.parts}
        print(json.dumps({"parameters": parameters, "weights_sha256": facts.weights_sha256}))
        return
    rows = [(f"  {part}", f"{count:,}") for part, count in facts.parts.items()]
    rows.insert(0, ("parameters", f"{facts.total:,}"))
    width, digits = max(len(name) for name, _ in rows), len(rows[0][1])
    for name, count in rows:
        print(f"{name.ljust(width)}  {count.rjust(digits)}")
    for name, text in facts.lines:
        print(f"{name.ljust(width)}  {text}")


def recipe_facts(name: str, settings: list[str], vocabulary: str | None, grid: str | None) -> Facts:
    """Facts about a recipe, with vocabularies of the maximum or the given sizes, and with image features of the given
    grid."""
    from interlinear.models.parameter_shapes import parameter_counts
    from training.recipe import load_recipe

    recipe = load_recipe(name, settings)
    names = [*recipe.texts, "target"]
    full_sizes = [*(source.vocabulary for source in recipe.texts.values()), recipe.target.vocabulary]
    sizes = full_sizes if vocabulary is None else parse_sizes(vocabulary, names)
    feature_sources = [name for name, image in recipe.images.items() if image.encoder == "grid"]
    if feature_sources and grid is None:
        problem = f"the features of '{feature_sources[0]}' are the data's, and not known here"
        raise UsageError(name, problem, "say how many they are with --grid, for example 7x7x2048")
    if grid is not None and not feature_sources:
        raise UsageError(f"--grid {grid}", "the recipe reads no image features that are given", "leave it out")
    grids = {image: parse_grid(grid) for image in feature_sources if grid}
    config = recipe.model_for(dict(zip(names, sizes, strict=True)), grids)
    return Facts(parameter_counts(config), lines=[("about", recipe.about), *inputs(config)])


def model_facts(name: str, tracking: str | None) -> Facts:
    """Facts about a model, from its card; the weights are not loaded."""
    from interlinear.bundle import read_card
    from interlinear.bundle.bundle import SHORTLIST
    from interlinear.models.parameter_shapes import parameter_counts
    from interlinear.registry.resolve import fetch_bundle

    with status(f"loading {name}"):
        card = read_card(fetch_bundle(name, tracking).folder)
    lines = [
        ("task", card.task),
        ("languages", " -> ".join(card.languages.values())),
        *inputs(card.model),
        *((score, f"{value.score:.2f}  {value.signature}") for score, value in card.metrics.items()),
        ("data", str(card.data.get("name", "-"))),
        *([("attention guided by", card.guide)] if card.guide else []),
        ("created", card.created),
        ("git commit", card.git_commit or "-"),
        ("shortlist", "used with --shortlist" if SHORTLIST in card.files else "-"),
        ("weights", f"SHA-256 {card.weights_sha256}"),
    ]
    return Facts(parameter_counts(card.model), card.weights_sha256, lines)


def print_aligner(folder: Path, as_json: bool) -> None:
    """Print what is known of a word aligner. Raises DataError for a damaged one."""
    from interlinear.alignment.stored_aligner import read_record

    record = read_record(folder)
    if as_json:
        print(record.model_dump_json())
        return
    lines = [
        ("word aligner", "a hidden Markov model of both directions"),
        ("learned from", f"{record.pairs:,} pairs"),
        ("words", ", ".join(f"{side} {count:,}" for side, count in record.words.items())),
        ("pairs of words", f"{record.word_pairs:,}"),
        ("text", "tokenised (--tokenised)" if record.tokenised else "raw"),
        ("created", record.created),
        ("size", f"{record.size / 1e6:.1f} MB"),
    ]
    width = max(len(name) for name, _ in lines)
    for name, text in lines:
        print(f"{name.ljust(width)}  {text}")


def inputs(config: "ModelConfig") -> list[tuple[str, str]]:
    """The inputs and the output of a model."""
    return [(name, str(side)) for name, side in [*config.sources.items(), ("target", config.target)]]


def parse_sizes(text: str, names: list[str]) -> list[int]:
    """Vocabulary sizes from `N,...,N`. Raises UsageError."""
    sizes = text.split(",")
    if len(sizes) != len(names) or not all(size.strip().isdecimal() and int(size) >= 5 for size in sizes):
        raise UsageError(f"--vocabulary {text}", f"{len(names)} sizes of 5 or more are needed ({','.join(names)})")
    return [int(size) for size in sizes]


def parse_grid(text: str) -> "ImageGrid":
    """A grid of features from `ROWSxCOLUMNSxFEATURES`. Raises UsageError."""
    from interlinear.config import ImageGrid

    sizes = text.split("x")
    if len(sizes) != 3 or not all(size.isdecimal() and int(size) for size in sizes):
        raise UsageError(f"--grid {text}", "it is three numbers, of rows, columns and features", "for example 7x7x2048")
    rows, columns, features = map(int, sizes)
    return ImageGrid(rows=rows, columns=columns, features=features)
