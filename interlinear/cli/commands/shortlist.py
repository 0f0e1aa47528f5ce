"""`interlinear shortlist`: makes the shortlist of a model, which is then searched among fewer words."""

from pathlib import Path
from typing import Annotated

import typer

from interlinear.cli.console import say
from interlinear.cli.options import DataRoot, Device, Json, Tracking, TrainingData


def shortlist(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            show_default=False,
            help="A bundle's folder, which gets the shortlist; or, with --output or --register, models:/NAME@ALIAS, "
            "models:/NAME/VERSION or runs:/ID/model.",
        ),
    ],
    data: TrainingData,
    links: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            metavar="FILE",
            show_default=False,
            help="Word links of the training pairs in Pharaoh format, line by line; else the model's own attention.",
        ),
    ] = None,
    words: Annotated[int, typer.Option(min=1, metavar="N", help="Target words for each source word.")] = 20,
    frequent: Annotated[
        int, typer.Option(min=0, metavar="M", help="Most frequent target words, which every sentence has.")
    ] = 100,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", show_default=False, help="A copy of the bundle gets the shortlist; MODEL stays as it is."
        ),
    ] = None,
    register: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            show_default=False,
            help="Register the model with the shortlist as a version of this name; else a registered model's own.",
        ),
    ] = None,
    as_json: Json = False,
    data_root: DataRoot = None,
    device: Device = "cpu",
    tracking: Tracking = None,
) -> None:
    """Make a model's shortlist: for every source word, in the vocabulary's units, its likeliest target words.

    With --shortlist, `translate`, `evaluate` and `serve` search each sentence only among the words of its own source
    and the most frequent ones, which is faster. Likeliest are those to which the model's attention links a source word
    most often while it is forced to write the training set's targets. The shortlist is kept in the bundle; searches
    without --shortlist are not affected. Prints how many words a sentence sees, and what share of the words of the dev
    set's references, and of the model's own outputs from the whole vocabulary, is among them.
    """
    from interlinear.bundle import load
    from interlinear.cli.decoding.shortlist_making import (
        as_record,
        as_text,
        choose_name,
        find_destination,
        keep_shortlist,
        make_shortlist,
        measure_on_dev,
    )
    from interlinear.devices import check_device
    from interlinear.generation.generator import SequenceGenerator
    from interlinear.installation import shell_command
    from interlinear.registry.resolve import fetch_bundle
    from training.data.dataset import open_dataset

    register = choose_name(model, output, register)
    check_device(device)
    dataset = open_dataset(data, data_root)
    local = fetch_bundle(model, tracking)
    destination = find_destination(model, local.folder, output, register, tracking)
    bundle = load(local.folder, device)
    generation = SequenceGenerator(bundle, slots=64, width=bundle.card.search.beam)
    made = make_shortlist(generation, dataset, links, words, frequent)
    measured = measure_on_dev(generation, made.shortlist, dataset)
    name = keep_shortlist(made.shortlist, local.folder, destination)
    if made.left_out:
        say(f"{made.left_out:,} pairs are left out: a side is empty, or longer than the model takes.")
    if measured is None:
        say(f"{dataset.name} has no dev set: what the shortlist covers is not measured.")
    vocabulary = bundle.card.model.target.vocabulary
    if register:
        say(f"services get it when it is promoted: {shell_command('promote', register, name.rpartition('/')[2])}")
    print(as_record(name, made, measured) if as_json else as_text(name, made, measured, vocabulary))
