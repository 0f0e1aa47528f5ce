"""Data sets: the commands `data list`, `data get`, `data describe` and `data split`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from interlinear.cli.console import download_progress, say
from interlinear.cli.help import App
from interlinear.cli.options import DataRoot, Json
from interlinear.cli.parallel_text import OwnLanguages, OwnText

app = App(help="List, download, describe and create data sets.", no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(metavar="NAME", show_default=False, help="A data set's name, or the path of its YAML.")
]


@app.command("list")
def list_known(data_root: DataRoot = None, as_json: Json = False) -> None:
    """List the known data sets and whether their files are on this machine."""
    from training.data.dataset import dataset_names, open_dataset
    from training.data.summary import availability

    datasets = [open_dataset(name, data_root) for name in dataset_names()]
    if as_json:
        rows = [
            {
                "name": dataset.name,
                "task": dataset.task,
                "languages": dataset.languages,
                "licence": dataset.licence,
                "about": dataset.about,
                "here": availability(dataset),
            }
            for dataset in datasets
        ]
        print(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    width = max(len(dataset.name) for dataset in datasets)
    for dataset in datasets:
        languages = " ".join(dataset.languages.values())
        print(f"{dataset.name:<{width}}  {availability(dataset):<6}  {dataset.task}  {languages}  {dataset.licence}")


@app.command()
def get(
    name: Name,
    data_root: DataRoot = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="URL",
            show_default=False,
            help="URL of a folder with the files; else their public source.",
        ),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Download files again that exist already.")] = False,
) -> None:
    """Download a data set's files from their public source; prints each file's path, size and SHA-256."""
    from training.data.dataset import open_dataset
    from training.data.fetch import check_complete, fetch

    dataset = open_dataset(name, data_root)
    with download_progress() as progress:
        received = fetch(dataset, progress, source, again)
    for path, file in received.items():
        print(f"{dataset.roots[0] / path}  {file.bytes:,} bytes  sha256 {file.sha256}")
    check_complete(dataset)
    if not received:
        say(f"every file of '{dataset.name}' is here already.")


@app.command()
def describe(name: Name, data_root: DataRoot = None, as_json: Json = False) -> None:
    """Show a data set: its licence, its splits with their numbers of lines, and the first line of each field."""
    from training.data.dataset import open_dataset
    from training.data.summary import summarize_split

    dataset = open_dataset(name, data_root)
    summaries = {split: summarize_split(dataset, split) for split in dataset.split_names}
    if as_json:
        splits = {
            split: {"lines": summary.lines, "first": summary.first}
            | ({"pictures": summary.images} if summary.images else {})
            for split, summary in summaries.items()
        }
        facts = {"name": dataset.name, "task": dataset.task, "about": dataset.about, "licence": dataset.licence}
        print(json.dumps({**facts, "languages": dataset.languages, "splits": splits}, ensure_ascii=False, indent=2))
        return
    languages = ", ".join(f"{field} {language}" for field, language in dataset.languages.items())
    print(f"{dataset.name}: {dataset.about}\n{dataset.task}; {languages}; {dataset.licence}")
    for split, summary in summaries.items():
        print(f"\n{split}: {summary.lines:,} lines")
        for field, text in summary.first.items():
            print(f"  {field}: {text}")
        for field, count in summary.images.items():
            print(f"  {field}: pictures of {count:,} lines")


@app.command()
def split(
    source: Annotated[
        Path,
        typer.Argument(
            exists=True, show_default=False, help="Source text, one sentence per line; or a .tsv, a .tmx, or a folder."
        ),
    ],
    target: Annotated[
        Path | None,
        typer.Argument(exists=True, dir_okay=False, show_default=False, help="Target text, parallel to the source."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", show_default=False, help="Folder for the data set; else data/NAME."),
    ] = None,
    languages: OwnLanguages = None,
    dev: Annotated[str, typer.Option(metavar="N|N%", help="Pairs of dev; of a share, 2,000 at most.")] = "5%",
    test: Annotated[str, typer.Option(metavar="N|N%", help="Pairs of test; of a share, 2,000 at most.")] = "5%",
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of dev and test.")] = 1,
) -> None:
    """Make a data set of parallel text, as `train --source` does; prints the path of its description.

    Neither side of a pair of dev and test occurs again in another pair, and train has no near-duplicates of them.
    """
    from training.data.parallel import SplitOptions, SplitSize

    options = SplitOptions(SplitSize.parse("--dev", dev), SplitSize.parse("--test", test), seed)
    print(OwnText(source, target, languages).make(options, output))
