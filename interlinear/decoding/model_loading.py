"""Loads models by name, for all commands."""

from pathlib import Path

from interlinear.console import say, status
from seq2seq.bundle import Bundle, ensemble_bundle, load, with_compiled_search
from seq2seq.bundle.precision import resolve_precision
from seq2seq.config import CompileChoice, Precision
from seq2seq.devices import check_device
from seq2seq.generate import SequenceGenerator
from seq2seq.model.ensemble import Predictor
from seq2seq.search.compiled import resolve_compile


def load_bundle(
    name: str,
    tracking: str | None = None,
    device: str = "cpu",
    precision: Precision = "fp32",
    shortlist: bool = False,
    compile_search: CompileChoice = "off",
) -> Bundle[Predictor]:
    """The bundle of a model by its name, on the device, in the precision, with its shortlist if `shortlist`. Several
    names, separated by commas, form an ensemble, whose shortlist has the words of all its members'.

    Raises UsageError, RegistryError, BundleError.
    """
    from registry.resolve import fetch_bundle

    check_device(device)
    if precision == "auto":
        precision = resolve_precision(precision, device)
        say(f"the precision is {precision}")
    names = [name] if Path(name).exists() else name.split(",")
    with status(f"loading {name}"):
        folders = [fetch_bundle(model_name.strip(), tracking).folder for model_name in names]
        bundles = [load(folder, device, precision, shortlist) for folder in folders]
    bundle = bundles[0] if len(bundles) == 1 else ensemble_bundle(bundles)
    return with_compiled_search(bundle) if resolve_compile(compile_search, device) else bundle


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
