"""Help of the commands: plain text, options in groups, and examples; and options that a group's commands share.

typer's own tables cut option names where a terminal has 80 columns.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from interlinear.cli.options import option_groups

FEW_OPTIONS = 7  # up to this number of options are not grouped
TYPES = {"str": "TEXT", "list[str]": "TEXT", "int": "N", "float": "NUMBER", "file": "FILE", "path": "PATH"}

BOUNDS = {">": "more than", ">=": "at least", "<": "less than", "<=": "at most"}

# The options of each group, for all commands; others are in the first group, `Options`.
GROUPS = {
    "Data": "data source target languages reference split mt image-dir no-images tokenised post-edits field "
    "glossary do-not-translate protect",
    "Training": "run resume gpu workers epochs seed trials space range grace per-gpu at-once",
    "Search": "beam-size n-best target-prefix reverse by symmetrize pivot split-sentences preserve-formatting",
    "Scores": "metrics metric tokenize lowercase samples correction cases shuffle-images confidence-curve",
    "Cluster": "address no-ray storage ray replicas",
    "MLflow": "register log",
    "Places": "tracking data-root prepared runs",
    "Models": "device precision compile shortlist",
}

EXAMPLES = {
    "demo": "demo",
    "data list": "data list",
    "data get": "data get multi30k-de-en",
    "data describe": "data describe multi30k-de-en",
    "data split": "data split memory.tmx --dev 1000 --test 1000",
    "prepare": "prepare rnnsearch --data multi30k-de-en",
    "train": "train rnnsearch --data multi30k-de-en --register de-en\n"
    "train rnnsearch --source train.de --target train.en --register mine\n"
    "train rnnsearch --data multi30k-de-en --set model.layers=2 --workers 4",
    "tune": "tune rnnsearch --data demo --trials 4",
    "distill": "distill models:/de-en@champion --data multi30k-de-en --output data/distilled",
    "round-trip": "round-trip --data multi30k-de-en --to-source models:/de-en@champion "
    "--to-target models:/en-de@champion --post-edits demo-postedit --output data/artificial",
    "submit": "submit rnnsearch --data demo --address http://HOST:8265 --workers 1:4 --wait",
    "jobs list": "jobs list --address http://HOST:8265",
    "jobs logs": "jobs logs rnnsearch-demo --follow --address http://HOST:8265",
    "jobs stop": "jobs stop rnnsearch-demo --address http://HOST:8265",
    "jobs resume": "jobs resume rnnsearch-demo --address http://HOST:8265",
    "evaluate": "evaluate models:/de-en@champion --data multi30k-de-en --split test\n"
    "evaluate models:/de-en@champion --source test.de --reference test.en --metrics all",
    "evaluate-outputs": "evaluate-outputs outputs.en --data multi30k-de-en\n"
    "evaluate-outputs outputs.en --reference test.en --metrics bleu,chrf",
    "evaluate-alignments": "evaluate-alignments models:/de-en@champion --data bicici.de-en",
    "compare": "compare models:/de-en/1 models:/de-en/2 --data multi30k-de-en",
    "info": "info rnnsearch\ninfo models:/de-en@champion",
    "models": "models\nmodels --json --tracking http://mlflow:5000",
    "promote": "promote de-en 2 --if-better-on multi30k-de-en",
    "translate": "translate models:/de-en@champion < in.de > out.en\n"
    "translate models:/de-en@champion report.docx --output report.en.docx",
    "align": "align --source train.de --target train.en --save aligner\n"
    "align models:/de-en@champion --source test.de --target test.en",
    "shortlist": "shortlist models:/de-en@champion --data multi30k-de-en",
    "serve": "serve\nserve --model de-en=models:/de-en@champion --port 8000 --set rate=5",
    "features": "features images.tar --network resnet50.safetensors",
    "figure attention": "figure attention models:/de-en@champion --source 'Ein Hund bellt.'",
    "figure gate": "figure gate models:/gates@champion --source 'Ein Hund bellt.'",
    "figure alignment": "figure alignment models:/de-en@champion --data bicici.de-en --line 3",
    "figure lengths": "figure lengths models:/de-en/1 models:/de-en/2 --data multi30k-de-en",
    "figure curves": "figure curves runs/rnnsearch-demo runs/luong-demo",
    "figure systems": "figure systems models:/de-en/1 models:/de-en/2 --data multi30k-de-en:dev",
    "completion": "completion bash >> ~/.bashrc",
    "keys add": "keys add alice --rate 10",
    "keys list": "keys list",
    "keys revoke": "keys revoke alice",
    "keys import": "keys import old-keys.db",
    "suggestions list": "suggestions list",
    "suggestions export": "suggestions export corrections --languages de,en",
    "suggestions delete": "suggestions delete 3 17",
}


class HelpCommand(TyperCommand):
    """A command whose help has its options in groups, and examples."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse the options. For an unknown option, options of the groups are suggested too."""
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            if unknown := getattr(error, "option_name", None):
                own = [name for option in self.get_params(ctx) for name in option.opts]
                known = own + [name for group in parents(ctx) for name in self.shared_of(group)]
                error.possibilities = get_close_matches(unknown, known)  # type: ignore[attr-defined]
            raise

    def invoke(self, ctx: typer.Context) -> Any:  # type: ignore[override]
        """Call the command. Raises an error for an option of a group that it does not have."""
        for group in parents(ctx):
            for name, option in shared_options(group.command).items():
                given = group.get_parameter_source(option.name)
                if option.name not in self.shared and given is not None and given.name == "COMMANDLINE":
                    ctx.fail(f"No such option: {name}")
        return super().invoke(ctx)

    @property
    def shared(self) -> frozenset[str]:
        """The parameters that are options of a group above it."""
        names: frozenset[str] = getattr(self.callback, "shared", frozenset())
        return names

    def shared_of(self, group: Any) -> list[str]:
        """The options that it shares, of the group of a context."""
        return [name for name, option in shared_options(group.command).items() if option.name in self.shared]

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the arguments, and the options by group."""
        write_options(self.get_params(ctx), ctx, formatter)
        for group in parents(ctx):
            if names := self.shared_of(group):
                formatter.write_paragraph()
                formatter.write_text(f"Also {', '.join(names)}: see `{group.command_path} --help`.")

    def format_epilog(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the examples."""
        if examples := EXAMPLES.get(ctx.command_path.partition(" ")[2]):
            with formatter.section("Examples"):
                for line in examples.split("\n"):
                    formatter.write(f"  interlinear {line}\n")


class HelpGroup(TyperGroup):
    """A group of commands whose help has them by their panels. Its options stand before or after the command's name."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        """Parse the group's options, wherever they stand."""
        options, own, others = shared_options(self), list[str](), list[str]()
        words = iter(args)
        for word in words:
            name, equals, _ = word.partition("=")
            if word == "--":
                others += [word, *words]
            elif option := options.get(name):
                own += [word] if option.is_flag or equals else [word, *islice(words, 1)]
            else:
                others.append(word)
        return super().parse_args(ctx, own + others)

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the options by group, and the commands."""
        write_options(self.get_params(ctx), ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write each command with the first sentence of its help."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            assert command is not None
            text = " ".join((command.help or "").partition("\n\n")[0].split())
            panel = getattr(command, "rich_help_panel", None) or "Commands"
            panels.setdefault(panel, []).append((name, re.split(r"(?<=\.)\s", text)[0]))
        for title, records in panels.items():
            with formatter.section(title):
                formatter.write_dl(records)


class App(typer.Typer):
    """A typer application with this help."""

    def __init__(self, **keywords: Any) -> None:
        settings = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
        given = {"add_completion": False, "pretty_exceptions_enable": False} | keywords
        super().__init__(cls=HelpGroup, rich_markup_mode=None, context_settings=settings, **given)

    def command(self, *arguments: Any, **keywords: Any) -> Callable[[Any], Any]:
        add = super().command(*arguments, cls=HelpCommand, **keywords)
        return lambda function: add(option_groups(function))


def parents(context: Any) -> Iterator[Any]:
    """The contexts of the groups above a command's, the nearest first."""
    while context := context.parent:
        if isinstance(context.command, HelpGroup):
            yield context


def shared_options(group: Any) -> dict[str, Any]:
    """The options of a group that its commands share, by their names."""
    return {
        name: option for option in group.params if not option.is_eager and option.expose_value for name in option.opts
    }


def write_options(parameters: Sequence[Any], context: typer.Context, formatter: Any) -> None:
    """Write arguments, and options by group."""
    arguments, options = [], []
    for parameter in parameters:
        record = parameter.get_help_record(context)
        if record and parameter.param_type_name == "argument":
            arguments.append((re.sub(r" <[^>]*>", "", record[0]), record[1]))
        elif record:
            options.append((parameter.opts[-1], (readable_types(record[0]), readable_range(record[1]))))
    groups: dict[str, list[tuple[str, str]]] = {"Arguments": arguments, "Options": []}
    groups |= {title: [] for title in GROUPS}
    for name, record in options:
        groups[group_of(name) if len(options) > FEW_OPTIONS else "Options"].append(record)
    for title, records in groups.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def group_of(option: str) -> str:
    """The title of an option's group."""
    name = option.lstrip("-")
    return next((title for title, names in GROUPS.items() if name in names.split()), "Options")


def readable_types(text: str) -> str:
    """An option's name and metavar: `N` for `<int>`, and a choice without brackets."""
    return re.sub(r"<([^>]*)>", lambda match: TYPES.get(match[1], match[1]), text)


def readable_range(text: str) -> str:
    """An option's help with `1 to 10` for `1<=x<=10`."""
    text = re.sub(r"([\d.]+)<=?x<=?([\d.]+)", r"\1 to \2", text)
    return re.sub(r"x(>=?|<=?)([\d.]+)", lambda match: f"{BOUNDS[match[1]]} {match[2]}", text)
