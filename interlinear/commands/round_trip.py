"""`interlinear round-trip`: writes a data set of artificial post-edits beside real ones, for automatic post-editing."""

from pathlib import Path
from typing import Annotated

import typer

from interlinear.decoding.search_options import SearchOverrides
from interlinear.options import DataRoot, Device, PrecisionName, Tracking, TrainingData, option_groups


@option_groups
def round_trip(
    data: TrainingData,
    to_source: Annotated[
        str,
        typer.Option(
            metavar="MODEL", show_default=False, help="Translates the text into the source language."
        ),
    ],
    to_target: Annotated[
        str, typer.Option(metavar="MODEL", show_default=False, help="Translates it back: its errors are corrected.")
    ],
    post_edits: Annotated[
        str,
        typer.Option(
            metavar="DATASET", show_default=False, help="Real post-edits: what the artificial ones are selected by."
        ),
    ],
    field: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", show_default=False,
            help="The field of --data with the text; else the one in the language of the post-edits.",
        ),
    ] = None,
    data_root: DataRoot = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", show_default=False,
            help="Folder for the new data set; else DATASET-round-trip, by the name of the post-edits.",
        ),
    ] = None,
    repeat: Annotated[
        int, typer.Option(min=1, max=1000, metavar="N", help="Number of times that the real post-edits are trained on.")
    ] = 20,
    triples: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", show_default=False,
            help="Number of artificial post-edits wanted; else as many as have the edit rates of the real ones.",
        ),
    ] = None,
    search: Annotated[SearchOverrides, "beam_size", "length_penalty", "max_length"] = SearchOverrides(),
    device: Device = "cpu",
    precision: PrecisionName = "fp32",
    tracking: Tracking = None,
) -> None:  # fmt: skip
    """Make artificial post-edits from text in the target language, by translating it to the source language and back.

    Those that are edited as much as real post-edits are written beside them, for `train`; dev and test are the real
    ones. Prints the path of the new data set's description. An interrupted command continues when it is called again.
    See docs/post-editing.md.
    """
    from interlinear.synthetic_data.round_trip import RoundTrip

    options = RoundTrip(
        data, field, to_source, to_target, post_edits, data_root, output, repeat, triples, search, device, precision,
        tracking,
    )  # fmt: skip
    print(options.run())
