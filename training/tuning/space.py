"""The search space of a tuning: recipe keys with the values that trials draw for them."""

import json
import math
import random
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from interlinear.errors import UsageError
from training.recipe import Recipe
from training.yaml_files import first_problem, load_yaml, read_mapping

DIGITS = 3  # significant digits of a drawn number
Bounds = tuple[int | float, int | float]
SHOWN_IN = "docs/tuning.md"


class Range(BaseModel):
    """The values of one recipe key: log-uniform, uniform, or a choice. Integer bounds draw integers."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    log: Bounds | None = None
    uniform: Bounds | None = None
    choice: list[Any] | None = Field(None, min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        given = [name for name in ("log", "uniform", "choice") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("give one of log: [LOW, HIGH], uniform: [LOW, HIGH] and choice: [VALUE, ...]")
        if self.bounds:
            low, high = self.bounds
            if not (math.isfinite(low) and math.isfinite(high)):
                raise ValueError("the bounds must be finite numbers")
            if low > high:
                raise ValueError(f"the range [{low}, {high}] is inverted: the lower bound comes first")
            if self.log and low <= 0:
                raise ValueError(f"a log-uniform range must be above 0, and [{low}, {high}] is not")
        return self

    @property
    def bounds(self) -> Bounds | None:
        """The lowest and highest value; None for a choice."""
        return self.log or self.uniform

    @property
    def example(self) -> Any:
        """One of the values."""
        return self.choice[0] if self.choice else (self.bounds or (None,))[0]

    def draw(self, chance: random.Random) -> Any:
        """One value."""
        if self.choice is not None:
            return chance.choice(self.choice)
        assert self.bounds
        low, high = self.bounds
        value = math.exp(chance.uniform(math.log(low), math.log(high))) if self.log else chance.uniform(low, high)
        if isinstance(low, int) and isinstance(high, int):
            return min(max(round(value), low), high)
        return min(max(float(f"{value:.{DIGITS}g}"), low), high)


SearchSpace = Mapping[str, Range]


def read_space(file: Path | None, ranges: Sequence[str] = ()) -> dict[str, Range]:
    """The search space of a YAML file with dotted recipe keys, and of `KEY=RANGE` arguments, which override it.

    A range is `{log: [LOW, HIGH]}`, `{uniform: [LOW, HIGH]}` or `{choice: [VALUE, ...]}`. Raises UsageError, which
    names the file or argument and the key.
    """
    space = parse_space(read_mapping(file, UsageError, str(file), SHOWN_IN), str(file)) if file else {}
    for argument in ranges:
        key, equals, text = argument.partition("=")
        try:
            content = load_yaml(text) if equals and key.strip() else None
        except yaml.YAMLError:
            content = None
        if not isinstance(content, dict):
            raise UsageError(
                f"--range {argument}", "this is no range", "write for example 'model.dropout={choice: [0.1, 0.2, 0.3]}'"
            )
        space |= parse_space({key.strip(): content}, "--range")
    return space


def parse_space(content: Mapping[str, Any], where: str) -> dict[str, Range]:
    """Ranges by recipe key. Raises UsageError, which names `where` and the key."""
    if not content:
        raise UsageError(where, "names no recipe key", f"see {SHOWN_IN}")
    space = {}
    for key, given in content.items():
        if not isinstance(given, Mapping):
            raise UsageError(
                f"{where}: {key}", f"{given!r} is no range", "write {log: [LOW, HIGH]}, {uniform: ...} or {choice: ...}"
            )
        try:
            space[str(key)] = Range.model_validate(given)
        except ValidationError as error:
            raise UsageError(f"{where}: {key}", first_problem(error), f"see {SHOWN_IN}") from None
    return space


def default_space(recipe: Recipe, fixed: Sequence[str] = ()) -> dict[str, Range]:
    """Ranges around a recipe's own learning rate, warm-up, dropout, label smoothing and batch.

    `fixed`: keys that were set for all trials; they are left out.
    """
    training = recipe.training
    batch = "batch_tokens" if training.batch_tokens else "batch_sentences"
    size: int = getattr(training, batch)
    space = {
        "training.learning_rate": Range(log=(training.learning_rate / 4, training.learning_rate * 4)),
        "training.warmup": _warmup_range(training.warmup),
        "model.dropout": _choice(recipe.model.dropout, 0.1, 0.2, 0.3, 0.4, 0.5),
        f"training.{batch}": _choice(size, max(1, size // 2), 2 * size),
    }
    if training.objective == "likelihood" or (training.risk and training.risk.likelihood):
        space["training.label_smoothing"] = _choice(training.label_smoothing, 0.0, 0.1, 0.2)
    return {key: values for key, values in space.items() if key not in fixed}


def _warmup_range(warmup: int) -> Range:
    """A range of updates around a recipe's own; a recipe without warm-up tries some."""
    return Range(log=(max(1, warmup // 4), warmup * 4)) if warmup else Range(choice=[0, 100, 300, 1000])


def _choice(own: float, *others: float) -> Range:
    return Range(choice=sorted({own, *others}))


def draw_values(space: SearchSpace, seed: int, number: int) -> dict[str, Any]:
    """The values of a trial. They depend on the seed, the trial's number and the key alone: not on the other keys, nor
    on the order in which trials run."""
    return {key: values.draw(random.Random(f"{seed}/{number}/{key}")) for key, values in space.items()}


def value_of(recipe: Recipe, key: str) -> Any:
    """A recipe's value of a dotted key; None where the recipe does not have it."""
    value: Any = recipe.model_dump(mode="json", by_alias=True)
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def as_settings(values: Mapping[str, Any]) -> list[str]:
    """Values as `KEY=VALUE`, for `--set`."""
    return [f"{key}={setting_text(value)}" for key, value in values.items()]


def setting_text(value: Any) -> str:
    """A value as YAML on one line. YAML reads 1e-05 as text, so numbers are written without an exponent."""
    return f"{Decimal(repr(value)):f}" if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
