"""The command `features`: extracts region features from images."""

from pathlib import Path
from typing import Annotated

import typer

from interlinear.cli.console import say
from interlinear.cli.options import DataCluster


def features(
    images: Annotated[
        Path,
        typer.Argument(exists=True, metavar="IMAGES", show_default=False, help="An uncompressed tar, or a folder."),
    ],
    network: Annotated[
        Path, typer.Option(metavar="FILE", show_default=False, help="The network's weights: safetensors or state dict.")
    ],
    kind: Annotated[str, typer.Option(metavar="NAME", help="The network, as a recipe names it.")] = "resnet50",
    size: Annotated[int, typer.Option(min=16, max=512, metavar="N", help="Pixels a side.")] = 224,
    index: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            metavar="FILE",
            show_default=False,
            help="A data set's index, which sets the order; else all pictures sorted by name, and an index is written.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", show_default=False, help="Else IMAGES-KIND-SIZE.safetensors in the current folder."
        ),
    ] = None,
    address: DataCluster = None,
) -> None:
    """Extract region features of many pictures, once; prints the file. An interrupted extraction continues with the
    same command."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from interlinear.components import IMAGE_NETWORKS
    from interlinear.config import ImageNetwork
    from interlinear.errors import UsageError
    from training.data.dataset import load_index
    from training.data.images.feature_extraction import (
        FeatureExtraction,
        ShardRunner,
        extract_features,
        extract_with_threads,
    )
    from training.data.images.images import ImageArchive

    if kind not in IMAGE_NETWORKS:
        raise UsageError("--kind", f"there is no network {kind}", f"name one of {', '.join(IMAGE_NETWORKS)}")
    output = (output or Path(f"{images.stem}-{kind}-{size}.safetensors")).resolve()
    archive = ImageArchive(images.resolve())
    index_file = output.with_suffix(".index.tsv")
    if index is None:
        members = tuple(archive.names())
    else:
        entries = [entry for lines in load_index(index).splits.values() for entry in lines.values()]
        members = tuple(entry.member for entry in sorted(entries))
    config = ImageNetwork(kind=kind, size=size)
    extraction = FeatureExtraction(archive, index or index_file, members, config, network.resolve(), output)
    run: ShardRunner = extract_with_threads
    if address is not None:
        from training.ray.data import extract_on_ray

        run = extract_on_ray(address)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("pictures", total=len(members))
        extracted = extract_features(extraction, run, lambda count: bar.advance(task, count))
    if index is None:
        index_file.write_text("".join(f"images\t{row}\t{name}\n" for row, name in enumerate(members)), encoding="utf-8")
        say(f"the pictures' order is in {index_file}")
    if not extracted:
        say("it is there already")
    print(output)
