"""Options of `interlinear distill` and `interlinear round-trip`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from interlinear.cli.decoding.search_options import SearchOverrides
from interlinear.cli.options import DataRoot, Device, ModelName, PrecisionName, Tracking, TrainingData, UseShortlist


@dataclass(frozen=True)
class DistillationOptions:
    """A model, and the data set whose training targets its outputs replace."""

    model: ModelName
    data: TrainingData
    data_root: DataRoot = None
    output: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", show_default=False, help="Folder for the new data set; else DATASET-distilled."),
    ] = None
    with_originals: Annotated[
        bool, typer.Option("--with-originals", help="Train on the original targets too: two pairs for every source.")
    ] = False
    search: Annotated[SearchOverrides, "settings"] = SearchOverrides()
    device: Device = "cpu"
    precision: PrecisionName = "fp32"
    use_shortlist: UseShortlist = False
    tracking: Tracking = None


@dataclass(frozen=True)
class RoundTripOptions:
    """The models of both directions, the text that they translate, and the real post-edits."""

    data: TrainingData
    to_source: Annotated[
        str,
        typer.Option(metavar="MODEL", show_default=False, help="Translates the text into the source language."),
    ]
    to_target: Annotated[
        str, typer.Option(metavar="MODEL", show_default=False, help="Translates it back: its errors are corrected.")
    ]
    post_edits: Annotated[
        str,
        typer.Option(
            metavar="DATASET", show_default=False, help="Real post-edits: what the artificial ones are selected by."
        ),
    ]
    field: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="The field of --data with the text; else the one in the language of the post-edits.",
        ),
    ] = None
    data_root: DataRoot = None
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FOLDER",
            show_default=False,
            help="Folder for the new data set; else DATASET-round-trip, by the name of the post-edits.",
        ),
    ] = None
    repeat: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="Number of times that the real post-edits are trained on.")
    ] = 20
    triples: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            show_default=False,
            help="Number of artificial post-edits wanted; else as many as have the edit rates of the real ones.",
        ),
    ] = None
    search: Annotated[SearchOverrides, "settings"] = SearchOverrides()
    device: Device = "cpu"
    precision: PrecisionName = "fp32"
    tracking: Tracking = None
