"""Options that name the user's own parallel text in place of a data set, and the data set that is made of it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from interlinear.cli.console import progress, say
from interlinear.errors import UsageError

if TYPE_CHECKING:
    from training.data.parallel import SplitOptions

DATASETS = Path("data")  # folder in which data sets are made

OwnLanguages = Annotated[
    str | None,
    typer.Option(
        "--languages", metavar="SOURCE,TARGET", show_default=False,
        help="The languages of your own text, such as de,en; else from file names, header or TMX.",
    ),
]  # fmt: skip


@dataclass(frozen=True)
class OwnText:
    """The options; None for one that is not given."""

    source: Annotated[
        Path | None,
        typer.Option(
            "--source", metavar="PATH", show_default=False,
            help="Your own text, not --data: a file, with --target; else a .tsv, a .tmx, or a folder of those and of "
            "files like x.de and x.en.",
        ),
    ] = None  # fmt: skip
    target: Annotated[
        Path | None,
        typer.Option("--target", metavar="FILE", show_default=False, help="Its translation, line by line."),
    ] = None
    languages: OwnLanguages = None

    def data_set(self, data: str | None, recipe: str, settings: Sequence[str]) -> str:
        """The data set to train a recipe on: `data` if it is given, else one made of the text; see `make`.

        Raises UsageError where both, or neither, are given, and for a recipe that reads more than a source.
        """
        if data is not None and self != OwnText():
            raise UsageError(
                f"--data {data}", "is a data set, and the options of your own text have no use with it", "leave one out"
            )
        if data is not None:
            return data
        if self.source is None and self.target:
            raise UsageError(f"--target {self.target}", "is one side of the pairs", "add --source")
        if self.source is None:
            raise UsageError(
                "--data", "is missing, and so is text of your own",
                "name a data set (`interlinear data list`), or --source FILE --target FILE, or --source PATH",
            )  # fmt: skip
        from training.recipe import load_recipe

        read = set(load_recipe(recipe, settings).sources)
        if read != {"source"}:
            raise UsageError(
                recipe, f"reads {' and '.join(sorted(read))}, and pairs have a source only",
                "choose a recipe that reads text only, or describe the data: docs/datasets.md",
            )  # fmt: skip
        return str(self.make())

    def make(
        self,
        options: "SplitOptions | None" = None,
        folder: Path | None = None,
    ) -> Path:
        """Make a data set of the text, or find the one made before; returns its description's path, and prints it on
        stderr. Raises UsageError, DataError.

        `options`: of dev and test; `folder`: by default in `data`. It is for summarization if both languages are one,
        else for translation.
        """
        from training.data.parallel import SplitFolder, SplitOptions, find_parallel_text, make_dataset, parse_languages

        assert self.source
        paths = [self.source, self.target] if self.target else [self.source]
        text = find_parallel_text(paths, parse_languages(self.languages) if self.languages else None)
        made = SplitFolder(folder or DATASETS / text.name)
        if text.ignored:
            say(f"no parallel text, and not read: {', '.join(text.ignored)}")
        task: Literal["summarization", "translation"]
        task = "summarization" if text.languages[0] == text.languages[1] else "translation"
        counts, new = make_dataset(text, made, options or SplitOptions(), task, progress)
        say(counts.describe(str(text)) if new else f"{made.path} was made of this text before, and is used")
        print_description(made.description)
        return made.description


def print_description(path: Path) -> None:
    """Show a description on stderr, and where it is."""
    content = "".join(f"\n    {line}" for line in path.read_text(encoding="utf-8").splitlines())
    option = f"--data {shlex.quote(str(path))}"
    say(f"the data set is described in {path}; change it there, and go on with {option}:{content}")
