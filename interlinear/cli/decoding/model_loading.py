"""Loads models by name, for all commands."""

from collections.abc import Sequence
from pathlib import Path

from interlinear.bundle import Bundle, ensemble_bundle, load, with_compiled_search
from interlinear.bundle.precision import resolve_precision
from interlinear.cli.console import say, status
from interlinear.config import CompileChoice, Precision
from interlinear.devices import check_device
from interlinear.generation.generator import SequenceGenerator
from interlinear.models.model import Model
from interlinear.models.protocol import EncoderDecoder
from interlinear.registry.resolve import fetch_bundle
from interlinear.search.compiled import resolve_compile


def load_bundle(
    name: str,
    tracking: str | None = None,
    device: str = "cpu",
    precision: Precision = "fp32",
    shortlist: bool = False,
    compile_search: CompileChoice = "off",
) -> Bundle[EncoderDecoder]:
    """The bundle of a model by its name, on the device, in the precision, with its shortlist if `shortlist`. Several
    names, separated by commas, form an ensemble, whose shortlist has the words of all its members'.

    Raises UsageError, RegistryError, BundleError.
    """
    precision = choose_precision(device, precision)
    bundle = combine([bundle for _, bundle in load_members(name, tracking, device, precision, shortlist)])
    return with_compiled_search(bundle) if resolve_compile(compile_search, device) else bundle


def choose_precision(device: str, precision: Precision) -> Precision:
    """The precision itself; for `auto` the device's best one, which is printed. Raises UsageError."""
    check_device(device)
    if precision == "auto":
        precision = resolve_precision(precision, device)
        say(f"the precision is {precision}")
    return precision


def load_members(
    name: str, tracking: str | None, device: str, precision: Precision, shortlist: bool = False
) -> list[tuple[str, Bundle[Model]]]:
    """The bundles that a name stands for, each with its own name. Raises UsageError, RegistryError, BundleError."""
    names = [name] if Path(name).exists() else [member.strip() for member in name.split(",")]
    with status(f"loading {name}"):
        return [(member, load(fetch_bundle(member, tracking).folder, device, precision, shortlist)) for member in names]


def combine(bundles: Sequence[Bundle[Model]]) -> Bundle[EncoderDecoder]:
    """One bundle itself, or the ensemble of several."""
    return bundles[0] if len(bundles) == 1 else ensemble_bundle(bundles)


def load_generation(
    name: str,
    tracking: str | None = None,
    device: str = "cpu",
    precision: Precision = "fp32",
    width: int | None = None,
    shortlist: bool = False,
) -> SequenceGenerator:
    """A generator for the model of that name, with beams of up to `width` (None: the beam size of its recipe)."""
    bundle = load_bundle(name, tracking, device, precision, shortlist)
    return SequenceGenerator(bundle, width=width or bundle.card.search.beam)
