"""Options of the commands that evaluate."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from interlinear.cli.decoding.search_options import SearchOverrides
from interlinear.cli.options import (
    AlignedBy,
    DataRoot,
    Device,
    Lowercase,
    MetricNames,
    ModelName,
    PrecisionName,
    Reverse,
    Split,
    Symmetrize,
    TestSetSource,
    Tokenize,
    Tracking,
    TrainingData,
    UseShortlist,
)

SHUFFLE_SEED = 1  # default seed of --shuffle-images

LogScores = Annotated[
    bool, typer.Option("--log", help="Log the scores to MLflow, in a run nested in the training run.")
]


@dataclass(frozen=True)
class EvaluationOptions:
    """The options of `evaluate`: a model whose outputs are scored; None where an option is absent."""

    model: ModelName
    test_set_source: Annotated[
        TestSetSource,
        "data",
        "split",
        "source",
        "references",
        "data_root",
        "mt",
        "image_dir",
        "no_images",
        "tokenised",
    ] = TestSetSource()
    shuffle_images: Annotated[
        bool,
        typer.Option("--shuffle-images", help="Also score with the pictures shuffled between lines (Elliott 2018)."),
    ] = False
    metrics: MetricNames = None
    tokenize: Tokenize = None
    lowercase: Lowercase = None
    search: Annotated[SearchOverrides, "settings"] = SearchOverrides()
    confidence_curve: Annotated[
        bool,
        typer.Option(
            "--confidence-curve",
            help="Also score with every search.post_editing_confidence from 0 to 1, from one search; name the best.",
        ),
    ] = False
    output: Annotated[
        Path | None,
        typer.Option(dir_okay=False, metavar="FILE", show_default=False, help="Write the translations to this file."),
    ] = None
    log: LogScores = False
    device: Device = "cpu"
    precision: PrecisionName = "fp32"
    use_shortlist: UseShortlist = False
    tracking: Tracking = None


@dataclass(frozen=True)
class OutputEvaluationOptions:
    """The options of `evaluate-outputs`: a file with outputs; None where an option is absent."""

    outputs: Annotated[
        str,
        typer.Argument(
            metavar="FILE|unedited",
            show_default=False,
            help="One output a line; or `unedited`: the machine translations of a set for post-editing.",
        ),
    ]
    test_set_source: Annotated[TestSetSource, "data", "split", "source", "references", "data_root", "tokenised"] = (
        TestSetSource()
    )
    metrics: MetricNames = None
    tokenize: Tokenize = None
    lowercase: Lowercase = None


@dataclass(frozen=True)
class AlignmentEvaluationOptions:
    """The options of `evaluate-alignments`: a model whose word alignments are scored; None where one is absent."""

    model: ModelName
    data: TrainingData
    split: Split = None
    by: AlignedBy = None
    reverse: Reverse = None
    symmetrize: Symmetrize = None
    log: LogScores = False
    device: Device = "cpu"
    precision: PrecisionName = "fp32"
    data_root: DataRoot = None
    tracking: Tracking = None
