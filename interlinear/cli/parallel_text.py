"""Options that name the user's own parallel text in place of a data set, and the data set that is made of it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from interlinear.cli.console import progress, say
from interlinear.errors import UsageError

DATASETS = Path("data")  # folder in which data sets are made
DEFAULT_SIZE, DEFAULT_SEED = "5%", 1

OwnLanguages = Annotated[
    str | None,
    typer.Option(
        "--languages", metavar="SOURCE,TARGET", show_default=False,
        help="The languages of your own text, such as de,en; else from file names, header or TMX.",
    ),
]  # fmt: skip
DevSize = Annotated[
    str | None,
    typer.Option(
        "--dev", metavar="N|N%", show_default=False,
        help="Pairs of your own text for dev; else 5%, 2,000 at most.",
    ),
]  # fmt: skip
TestSize = Annotated[
    str | None,
    typer.Option(
        "--test", metavar="N|N%", show_default=False,
        help="Pairs of your own text for test; else 5%, 2,000 at most.",
    ),
]  # fmt: skip


@dataclass(frozen=True)
class OwnText:
    """The options; None for one that is not given."""

    source: Annotated[
        Path | None,
        typer.Option("--source", metavar="FILE", show_default=False, help="Your own text, with --target, not --data."),
    ] = None
    target: Annotated[
        Path | None,
        typer.Option("--target", metavar="FILE", show_default=False, help="Its translation, line by line."),
    ] = None
    pairs: Annotated[
        Path | None,
        typer.Option(
            "--pairs", metavar="PATH", show_default=False,
            help="Your own pairs, instead: a .tsv, a .tmx, or a folder of those and of files like x.de and x.en.",
        ),
    ] = None  # fmt: skip
    languages: OwnLanguages = None
    dev: DevSize = None
    test: TestSize = None
    split_seed: Annotated[
        int | None,
        typer.Option("--split-seed", min=0, metavar="N", show_default=False, help="Seed of dev and test; else 1."),
    ] = None
    dataset_folder: Annotated[
        Path | None,
        typer.Option(
            "--dataset-folder", metavar="FOLDER", show_default=False,
            help="Folder for the data set made of your own text; else data/NAME.",
        ),
    ] = None  # fmt: skip

    @property
    def paths(self) -> tuple[Path, ...]:
        """The two files, or the one file or folder; none if the options name no text. Raises UsageError."""
        if self.pairs and (self.source or self.target):
            raise UsageError("--pairs", "has both sides of the pairs", "leave --source and --target out, or it")
        if self.source and self.target:
            return self.source, self.target
        if self.source or self.target:
            given, missing = ("--source", "--target") if self.source else ("--target", "--source")
            raise UsageError(
                f"{given} {self.source or self.target}", "is one side of the pairs",
                f"add {missing}; or name a .tsv, a .tmx or a folder with --pairs",
            )  # fmt: skip
        return (self.pairs,) if self.pairs else ()

    def data_set(self, data: str | None, recipe: str, settings: Sequence[str]) -> str:
        """The data set to train a recipe on: `data` if it is given, else one made of the text; see `make`.

        Raises UsageError where both, or neither, are given, and for a recipe that reads more than a source.
        """
        paths = self.paths
        if data is not None and self != OwnText():
            raise UsageError(
                f"--data {data}", "is a data set, and the options of your own text have no use with it", "leave one out"
            )
        if data is not None:
            return data
        if not paths:
            raise UsageError(
                "--data", "is missing, and so is text of your own",
                "name a data set (`interlinear data list`), or --source FILE --target FILE, or --pairs PATH",
            )  # fmt: skip
        from training.data.parallel import SplitSize
        from training.recipe import load_recipe

        read = set(load_recipe(recipe, settings).sources)
        if read != {"source"}:
            raise UsageError(
                recipe, f"reads {' and '.join(sorted(read))}, and pairs have a source only",
                "choose a recipe that reads text only, or describe the data: docs/datasets.md",
            )  # fmt: skip
        if self.dev and not SplitSize.parse("--dev", self.dev).line_count(1000):
            raise UsageError(f"--dev {self.dev}", "training chooses its weights by the dev set", "leave it out")
        return str(self.make())

    def make(self, task: Literal["translation", "summarization"] | None = None) -> Path:
        """Make a data set of the text, or find the one made before; returns its description's path, and prints it on
        stderr. Raises UsageError, DataError.

        `task`: None: summarization if both languages are one, else translation.
        """
        from training.data.parallel import (
            SplitFolder,
            SplitOptions,
            SplitSize,
            find_parallel_text,
            make_dataset,
            parse_languages,
        )

        text = find_parallel_text(self.paths, parse_languages(self.languages) if self.languages else None)
        options = SplitOptions(
            SplitSize.parse("--dev", self.dev or DEFAULT_SIZE),
            SplitSize.parse("--test", self.test or DEFAULT_SIZE),
            DEFAULT_SEED if self.split_seed is None else self.split_seed,
        )
        folder = SplitFolder(self.dataset_folder or DATASETS / text.name)
        if text.ignored:
            say(f"no parallel text, and not read: {', '.join(text.ignored)}")
        task = task or ("summarization" if text.languages[0] == text.languages[1] else "translation")
        counts, new = make_dataset(text, folder, options, task, progress)
        say(counts.describe(str(text)) if new else f"{folder.path} was made of this text before, and is used")
        print_description(folder.description)
        return folder.description


def print_description(path: Path) -> None:
    """Show a description on stderr, and where it is."""
    content = "".join(f"\n    {line}" for line in path.read_text(encoding="utf-8").splitlines())
    option = f"--data {shlex.quote(str(path))}"
    say(f"the data set is described in {path}; change it there, and go on with {option}:{content}")
