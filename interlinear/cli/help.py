"""Help of the commands: plain text, options in groups, and examples.

typer's own tables cut option names where a terminal has 80 columns.
"""

import re
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

FEW_OPTIONS = 7  # up to so many are not divided into groups
TYPES = {"str": "TEXT", "list[str]": "TEXT", "int": "N", "float": "NUMBER", "file": "FILE", "path": "PATH"}

BOUNDS = {">": "more than", ">=": "at least", "<": "less than", "<=": "at most"}

# The options of each group, for all commands; others are in the first group, `Options`.
GROUPS = {
    "Data": "data data-root source target pairs languages dev test split-seed dataset-folder reference split mt "
    "image-dir images no-images tokenised prepared pack-data post-edits field glossary do-not-translate protect",
    "Training": "set run runs resume gpu no-cuda-graphs epochs seed trials space range grace reduction per-gpu at-once",
    "Search": "beam-size length-penalty coverage-penalty min-length max-length n-best target-prefix replace-unknown "
    "repetition-guard no-repeat-ngram-size repetition-penalty "
    "post-editing-penalty post-editing-confidence shortlist device precision compile reverse by symmetrize",
    "Scores": "metrics metric tokenize lowercase samples correction cases shuffle-images confidence-curve",
    "Cluster": "workers address no-ray storage wait env may-grow folder ray replicas",
    "MLflow": "register tracking experiment parent no-tracking log",
    "Access": "keys require-key suggestions rate trust-proxy cors",
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
    "compare": "compare models:/de-en/1 models:/de-en/2 --data multi30k-de-en",
    "info": "info rnnsearch\ninfo models:/de-en@champion",
    "models": "models\nmodels --json --tracking http://mlflow:5000",
    "promote": "promote de-en 2 --if-better-on multi30k-de-en",
    "translate": "translate models:/de-en@champion < in.de > out.en\n"
    "translate models:/de-en@champion report.docx --output report.en.docx",
    "align": "align --source train.de --target train.en --save aligner\n"
    "align models:/de-en@champion --source test.de --target test.en",
    "shortlist": "shortlist models:/de-en@champion --data multi30k-de-en",
    "serve": "serve\nserve --model de-en=models:/de-en@champion --port 8000",
    "keys add": "keys add alice --rate 10",
    "keys list": "keys list",
    "keys revoke": "keys revoke alice",
    "suggestions list": "suggestions list",
    "suggestions export": "suggestions export corrections --languages de,en",
}


class HelpCommand(TyperCommand):
    """A command whose help has its options in groups, and examples."""

    def format_options(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the arguments, and the options by group."""
        arguments, options = [], []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
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

    def format_epilog(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]
        """Write the examples."""
        if examples := EXAMPLES.get(ctx.command_path.partition(" ")[2]):
            with formatter.section("Examples"):
                for line in examples.split("\n"):
                    formatter.write(f"  interlinear {line}\n")


class HelpGroup(TyperGroup):
    """A group of commands whose help has them by their panels."""

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
        return super().command(*arguments, cls=HelpCommand, **keywords)


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
