"""`interlinear distill`: writes a data set whose training targets are a model's outputs, for a smaller model."""

from pathlib import Path
from typing import Annotated

import typer

from interlinear.decoding.search_options import SearchOverrides
from interlinear.options import (
    DataRoot,
    Device,
    ModelName,
    PrecisionName,
    Tracking,
    TrainingData,
    UseShortlist,
    option_groups,
)


@option_groups
def distill(
    model: ModelName,
    data: TrainingData,
    data_root: DataRoot = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", show_default=False, help="Folder for the new data set; else DATASET-distilled."),
    ] = None,
    with_originals: Annotated[
        bool, typer.Option("--with-originals", help="Train on the original targets too: two pairs for every source.")
    ] = False,
    search: Annotated[
        SearchOverrides,
        "beam_size",
        "length_penalty",
        "min_length",
        "max_length",
        "coverage_penalty",
        "post_editing_penalty",
        "post_editing_confidence",
        "replace_unknown",
    ] = SearchOverrides(),
    device: Device = "cpu",
    precision: PrecisionName = "fp32",
    use_shortlist: UseShortlist = False,
    tracking: Tracking = None,
) -> None:
    """Translate the train split of a data set, so that a smaller model can learn from the outputs (Kim and Rush 2016).

    Prints the path of the new data set's description, for `train student --data`. Its dev and test are the
    original ones. An interrupted command continues when it is called again.
    """
    from interlinear.synthetic_data.distillation import Distillation

    distillation = Distillation(
        model, data, data_root, output, with_originals, search, device, precision, use_shortlist, tracking
    )
    print(distillation.run())
