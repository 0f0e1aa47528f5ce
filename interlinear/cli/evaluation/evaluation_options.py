"""What `interlinear evaluate` scores, and how."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from interlinear.cli.decoding.search_options import SearchOverrides
from interlinear.cli.options import (
    PRECISION_HELP,
    SYSTEM_HELP,
    AlignedBy,
    Lowercase,
    MetricNames,
    PrecisionChoice,
    Reverse,
    Symmetrize,
    TestSetSource,
    Tokenize,
    Tracking,
    UseShortlist,
)

SHUFFLE_SEED = 1  # of --shuffle-images, unless --seed names another


@dataclass(frozen=True)
class EvaluationOptions:
    """The model or file of outputs, the test set, and the options of the command; None where an option is absent."""

    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            show_default=False,
            help=f"{SYSTEM_HELP[0].upper()}{SYSTEM_HELP[1:]}. Models separated by commas form an ensemble.",
        ),
    ]
    test_set_source: TestSetSource = TestSetSource()
    shuffle_images: Annotated[
        bool,
        typer.Option("--shuffle-images", help="Also score with the pictures shuffled between lines (Elliott 2018)."),
    ] = False
    seed: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", show_default=False, help="Random seed of --shuffle-images; else 1."),
    ] = None
    metrics: MetricNames = None
    tokenize: Tokenize = None
    lowercase: Lowercase = None
    by: AlignedBy = None
    reverse: Reverse = None
    symmetrize: Symmetrize = None
    search: Annotated[
        SearchOverrides,
        "beam_size",
        "length_penalty",
        "max_length",
        "post_editing_penalty",
        "post_editing_confidence",
    ] = SearchOverrides()
    confidence_curve: Annotated[
        bool,
        typer.Option(
            "--confidence-curve",
            help="Also score with every --post-editing-confidence from 0 to 1, from one search, and name the best.",
        ),
    ] = False
    output: Annotated[
        Path | None,
        typer.Option(dir_okay=False, metavar="FILE", show_default=False, help="Write the translations to this file."),
    ] = None
    log: Annotated[
        bool, typer.Option("--log", help="Log the scores to MLflow, in a run nested in the training run.")
    ] = False
    device: Annotated[
        str | None, typer.Option(metavar="DEVICE", show_default=False, help="cpu, cuda or cuda:N; else cpu.")
    ] = None
    precision: Annotated[
        PrecisionChoice | None, typer.Option("--precision", show_default=False, help=f"{PRECISION_HELP} Else fp32.")
    ] = None
    shortlist: UseShortlist = False
    tracking: Tracking = None

    @property
    def shuffle_seed(self) -> int:
        """The seed by which images are shuffled."""
        return SHUFFLE_SEED if self.seed is None else self.seed
