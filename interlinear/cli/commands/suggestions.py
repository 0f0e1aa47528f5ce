"""Suggestions of a service's callers: the commands `suggestions list`, `export` and `delete`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from interlinear.cli.commands.keys import Keys
from interlinear.cli.console import say
from interlinear.cli.help import App
from interlinear.cli.options import DataRoot, Json
from interlinear.cli.parallel_text import OwnLanguages

app = App(no_args_is_help=True)

KeyName = Annotated[
    str | None, typer.Option("--key", metavar="NAME", show_default=False, help="Only those of this key, by its name.")
]


@app.callback()
def store(keys: Keys = "keys.db") -> None:
    """List, export and delete the corrected translations that a service's callers sent."""


@app.command("list")
def list_suggestions(key: KeyName = None, as_json: Json = False, *, keys: Keys) -> None:
    """List the suggestions in the order of their arrival: id, date, key, languages, text and translation."""
    from service.store.suggestion_store import SuggestionStore

    stored = SuggestionStore(keys).list(key)
    if as_json:
        rows = [
            {
                "id": one.id,
                "created": one.created.isoformat(),
                "key": one.suggestion.key or None,
                "source": one.suggestion.source,
                "target": one.suggestion.target,
                "q": one.suggestion.text,
                "s": one.suggestion.translation,
            }
            for one in stored
        ]
        print(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    for one in stored:
        suggestion = one.suggestion
        languages = f"{suggestion.source}-{suggestion.target}"
        print(f"{one.id}  {one.created:%Y-%m-%d}  {suggestion.key or '-'}  {languages}  ", end="")
        print(f"{quoted(suggestion.text)} -> {quoted(suggestion.translation)}")


def quoted(text: str) -> str:
    """A caller's text on one line, with control characters escaped: it must not steer the terminal."""
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", show_default=False, help="Folder for the data set.")],
    languages: OwnLanguages = None,
    extended: Annotated[
        str | None,
        typer.Option(
            "--with",
            metavar="DATASET",
            show_default=False,
            help="A data set, by its name or YAML, whose train split the suggestions are added to.",
        ),
    ] = None,
    data_root: DataRoot = None,
    key: KeyName = None,
    *,
    keys: Keys,
) -> None:
    """Make a data set of the suggestions for `train --data`; prints the path of its description.

    With --with, dev and test are those of the other data set, and suggestions that are nearly the same as a pair of
    theirs are left out. Without it, dev and test are drawn from the suggestions.
    """
    from interlinear.cli.suggestion_export import choose_languages, export_alone, export_with, suggested_pairs
    from service.store.suggestion_store import SuggestionStore
    from training.data.parallel import SplitFolder, SplitOptions, parse_languages

    stored = SuggestionStore(keys).list(key)
    chosen = choose_languages(stored, parse_languages(languages) if languages else None)
    pairs = suggested_pairs(stored, chosen)
    if extended:
        added, left_out = export_with(extended, data_root, pairs, chosen, folder)
        say(f"{added:,} pairs are added to train" + (f"; {left_out:,} are nearly in dev or test" if left_out else ""))
    else:
        say(export_alone(pairs, chosen, folder, SplitOptions()).describe("suggestions"))
    print(SplitFolder(folder).description)


@app.command()
def delete(
    ids: Annotated[list[int], typer.Argument(metavar="ID...", show_default=False, help="Ids of `suggestions list`.")],
    keys: Keys,
) -> None:
    """Delete suggestions permanently, by their ids."""
    from service.store.suggestion_store import SuggestionStore

    deleted = SuggestionStore(keys).delete(ids)
    say(f"{deleted} of {len(set(ids))} suggestions are deleted" + ("" if deleted else ": none has such an id") + ".")
