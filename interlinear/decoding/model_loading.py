"""From a model's name to something that answers: the one place where a verb loads a model."""

from pathlib import Path

from interlinear.console import status
from seq2seq.bundle import Bundle, ensemble_bundle, load
from seq2seq.config import Precision
from seq2seq.devices import check_device
from seq2seq.generate import SequenceGenerator
from seq2seq.model.ensemble import Predictor


def load_bundle(
    name: str, tracking: str | None = None, device: str = "cpu", precision: Precision = "fp32"
) -> Bundle[Predictor]:
    """The bundle of that name, on that device, in that precision; of several names with commas between them, their
    ensemble.

    Raises CallError, RegistryError, BundleError.
    """
    from registry.resolve import fetch_bundle

    check_device(device)
    names = [name] if Path(name).exists() else name.split(",")
    with status(f"loading {name}"):
        bundles = [load(fetch_bundle(one.strip(), tracking).folder, device, precision) for one in names]
    return bundles[0] if len(bundles) == 1 else ensemble_bundle(bundles)


def load_generation(
    name: str,
    tracking: str | None = None,
    device: str = "cpu",
    precision: Precision = "fp32",
    width: int | None = None,
) -> SequenceGenerator:
    """The model of that name, ready to answer with beams of up to `width` (None: what its recipe searches with)."""
    bundle = load_bundle(name, tracking, device, precision)
    return SequenceGenerator(bundle, width=width or bundle.card.search.beam)
