"""The second model of a translation through a pivot language, and the options of both searches."""

from interlinear.bundle import Bundle
from interlinear.cli.decoding.model_loading import load_bundle
from interlinear.cli.decoding.search_options import OF_OUTPUTS, SearchOverrides
from interlinear.config import Precision
from interlinear.generation.generator import SequenceGenerator
from interlinear.models.protocol import EncoderDecoder
from interlinear.search import SearchOptions
from interlinear.translation.offline import OfflineModel, check_pivot
from interlinear.translation.pivoting import PIVOT_OUTPUTS
from interlinear.translation.splitting import Step


def load_pivot(
    name: str,
    first: Bundle[EncoderDecoder],
    search: SearchOverrides,
    tracking: str | None,
    device: str,
    precision: Precision,
) -> Step[OfflineModel]:
    """The second search: the model of that name, which must read what the first one writes. Raises UsageError,
    RegistryError, BundleError."""
    bundle = load_bundle(name, tracking, device, precision)
    check_pivot(first.card, bundle.card, "--pivot")
    options = search.apply_to(bundle)
    return Step(OfflineModel(SequenceGenerator(bundle, width=options.beam)), options)


def first_options(search: SearchOverrides, bundle: Bundle[EncoderDecoder]) -> SearchOptions:
    """The options of the first search, whose best outputs are translated further; length limits apply to the second
    search."""
    options = search.apply_to(bundle, leave_out=OF_OUTPUTS)
    return options.model_copy(update={"n_best": min(PIVOT_OUTPUTS, options.beam)})
