"""Data sets: the verbs `data list`, `data get`, `data describe` and `data split`."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from interlinear.console import say
from interlinear.options import DataRoot, Json

if TYPE_CHECKING:
    from training.data.dataset import Dataset
    from training.data.fetch import DownloadProgress

app = typer.Typer(help="See which data sets there are, fetch and describe them, make one.", no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(metavar="NAME", show_default=False, help="A data set's name, or the path of its YAML.")
]


@app.command("list")
def list_known(data_root: DataRoot = None, as_json: Json = False) -> None:
    """List the data sets that are known by name, and whether their files are here."""
    from training.data.dataset import dataset_names, locate

    known = [locate(name, data_root) for name in dataset_names()]
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
            for dataset in known
        ]
        print(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    width = max(len(dataset.name) for dataset in known)
    for dataset in known:
        languages = " ".join(dataset.languages.values())
        print(f"{dataset.name:<{width}}  {availability(dataset):<9}  {dataset.task}  {languages}  {dataset.licence}")


@app.command()
def get(
    name: Name,
    data_root: DataRoot = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="URL", show_default=False, help="A folder that has the files; else their home."),
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Fetch also what is here already.")] = False,
) -> None:
    """Fetch a data set's files from their public home; prints each file's path, size and SHA-256."""
    from training.data.dataset import data_root as root_of
    from training.data.dataset import locate, open_dataset
    from training.data.fetch import fetch

    dataset = locate(name, data_root)
    if dataset.generate is not None:
        print(open_dataset(name).roots[0])
        return
    root = root_of(data_root)
    with download_progress() as progress:
        received = fetch(dataset.name, dataset, root, progress, source, again)
    for path, file in received.items():
        print(f"{root / path}  {file.bytes:,} bytes  sha256 {file.sha256}")
    if not received:
        say(f"every file of '{dataset.name}' is here already.")


@app.command()
def describe(name: Name, data_root: DataRoot = None, as_json: Json = False) -> None:
    """Show a data set: its licence, its splits with their numbers of lines, and the first line of each field."""
    from training.data.dataset import open_dataset, read_index, read_rows

    dataset = open_dataset(name, data_root)
    lines: dict[str, int] = {}
    first: dict[str, dict[str, str]] = {}
    pictures: dict[str, dict[str, int]] = {}
    for split in dataset.splits:
        names = dataset.fields(split)
        rows = read_rows(dataset, split, names)
        # What is no UTF-8 is read where cleaning leaves it out; it cannot be printed.
        texts = (text.encode(errors="replace").decode() for text in next(rows).texts)
        first[split] = dict(zip(names, texts, strict=True))
        lines[split] = 1 + sum(1 for _ in rows)
        pictures[split] = {name: len(read_index(dataset.image(split, name))) for name in dataset.images(split)}
    if as_json:
        splits = {
            split: {"lines": lines[split], "first": first[split]}
            | ({"pictures": pictures[split]} if pictures[split] else {})
            for split in dataset.splits
        }
        facts = {"name": dataset.name, "task": dataset.task, "about": dataset.about, "licence": dataset.licence}
        print(json.dumps({**facts, "languages": dataset.languages, "splits": splits}, ensure_ascii=False, indent=2))
        return
    languages = ", ".join(f"{field} {language}" for field, language in dataset.languages.items())
    print(f"{dataset.name}: {dataset.about}\n{dataset.task}; {languages}; {dataset.licence}")
    for split in dataset.splits:
        print(f"\n{split}: {lines[split]:,} lines")
        for field, text in first[split].items():
            print(f"  {field}: {text}")
        for field, count in pictures[split].items():
            print(f"  {field}: pictures of {count:,} lines")


@app.command()
def split(
    source: Annotated[Path, typer.Argument(exists=True, dir_okay=False, show_default=False, help="A sentence a line.")],
    target: Annotated[Path, typer.Argument(exists=True, dir_okay=False, show_default=False, help="Line i of both.")],
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", show_default=False, help="A new folder for the splits and their YAML.")
    ],
    dev: Annotated[str, typer.Option(metavar="N|N%", help="Lines to choose by; of a share, 2,000 at most.")] = "5%",
    test: Annotated[str, typer.Option(metavar="N|N%", help="Lines to judge by; of a share, 2,000 at most.")] = "5%",
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Another number draws other lines.")] = 1,
    task: Annotated[Literal["translation", "summarization"], typer.Option(help="What is learned from them.")] = (
        "translation"
    ),
) -> None:
    """Cut two parallel texts into train, dev and test at random; prints the path of the data set's description.

    A pair that occurs more than once stays in train, so that nothing that is judged on was learned.
    """
    from training.data.dataset import open_dataset, read_lines
    from training.data.splitting import SplitSize, split_pairs

    described = split_pairs(
        source, target, output, SplitSize.parse("--dev", dev), SplitSize.parse("--test", test), seed, task
    )
    dataset = open_dataset(str(described))
    sizes = {name: sum(1 for _ in read_lines(dataset.field(name, "source"))) for name in dataset.splits}
    say(", ".join(f"{name} {size:,} lines" for name, size in sizes.items()))
    print(described)


def availability(dataset: "Dataset") -> str:
    """Whether a data set's files are here: `here`, `partly`, `no`; a generated one is made when it is needed."""
    if dataset.generate is not None:
        return "generated"
    from training.data.uris import expand_path, is_uri

    # What lies in a store is not looked for: `data list` needs no network.
    found = [is_uri(path) or any(expand_path(str(root / path)) for root in dataset.roots) for path in dataset.paths]
    return "here" if all(found) else "partly" if any(found) else "no"


@contextmanager
def download_progress() -> "Iterator[DownloadProgress]":
    """Progress bars on stderr, one for each file; without a terminal, a line for each."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    begun: dict[str, int] = {}
    if not sys.stderr.isatty():

        def tell(path: str, done: int, size: int | None) -> None:
            if begun.setdefault(path, done) == done:
                say(f"fetching {path}" + (f", {size:,} bytes" if size else ""))

        yield tell
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:

        def show(path: str, done: int, size: int | None) -> None:
            if path not in begun:
                begun[path] = int(bars.add_task(path, total=size))
            bars.update(bars.tasks[begun[path]].id, completed=done, total=size)

        yield show
