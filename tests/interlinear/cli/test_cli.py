"""The command line: start-up time, messages, and exit codes."""

import json
import os
import re
import runpy
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, cast, get_args, get_type_hints

import pytest
from typer.main import get_command

from interlinear import cli
from interlinear.cli import console
from interlinear.cli.help import EXAMPLES, GROUPS
from interlinear.cli.main import main_options
from interlinear.config import CompileChoice, Precision
from interlinear.errors import BundleError, DataError, RecipeError

COMMAND = [sys.executable, "-m", "interlinear"]


HEAVY = {
    "torch",
    "numpy",
    "pydantic",
    "yaml",
    "sacrebleu",
    "matplotlib",
    "mlflow",
    "ray",
    "fastapi",
    "uvicorn",
    "asyncio",
    "aiohttp",
}


pytestmark = pytest.mark.filterwarnings("ignore:.interlinear.cli. found in sys.modules")


def test_help_is_fast():
    """The limit is 0.3 seconds: slow modules must not be imported for help."""
    script = "import sys; from interlinear import cli; cli.run(['--help']); print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not HEAVY & {name.partition(".")[0] for name in done.stderr.split()}
    for verb in ("demo", "prepare", "train", "distill", "round-trip", "evaluate", "compare", "info", "figure",
                 "models", "promote", "translate", "align", "shortlist", "serve", "keys"):  # fmt: skip
        assert verb in done.stdout


def leaves(command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command by its words."""
    if not hasattr(command, "commands"):
        yield " ".join(words), command
    for name, sub in getattr(command, "commands", {}).items():
        yield from leaves(sub, (*words, name))


def test_every_option_is_in_the_help_by_its_name_and_type_in_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    app = get_command(cli.app)
    names = {option.opts[-1].lstrip("-") for option in app.params}
    parent = app.context_class(app, info_name="interlinear")
    for words, command in leaves(app):
        context = command.context_class(command, info_name=words, parent=parent)
        shown = command.get_help(context)
        for option in command.params:
            if option.param_type_name == "option":
                assert all(re.search(rf"(^|[\s,/]){name}\b", shown) for name in option.opts), option.opts
                names.add(option.opts[-1].lstrip("-"))
        assert not re.search(r"<(str|int|float|bool|file|path|list|.*\|)|x[<>]=|…", shown)
        lines = shown.split("Examples:")[0].splitlines()
        assert max(len(line) for line in lines if not line.startswith("  -")) <= 80  # a name and its choices stay whole
        if words == "train":
            titles = [line[:-1] for line in shown.splitlines() if re.fullmatch(r"\w+:", line)]
            assert titles == ["Arguments", "Options", "Data", "Training", "Cluster", "MLflow", "Examples"]
    listed = " ".join(GROUPS.values()).split()
    assert len(listed) == len(set(listed)) and set(listed) <= names


def group_options(words: str) -> list[Any]:
    """The options of the groups above a command."""
    group, options = get_command(cli.app), []
    for word in words.split():
        options += group.params
        group = group.commands[word]
    return options


def test_the_commands_have_at_most_250_parameters():
    """A user reads them all: what is a key of a file or an environment variable is no option as well."""

    def parameters(command: Any) -> int:
        return len(command.params) + sum(map(parameters, getattr(command, "commands", {}).values()))

    assert parameters(get_command(cli.app)) <= 250


def test_serve_takes_a_file_and_at_most_ten_options():
    assert len({option.name for option in get_command(cli.app).commands["serve"].params} - {"config"}) <= 10


def test_the_choices_of_options_are_those_of_the_settings():
    """They are written twice, since the settings' module imports pydantic, which help does not wait for."""
    assert get_args(get_type_hints(main_options)["precision"]) == get_args(Precision)
    assert get_args(get_type_hints(main_options)["compile_search"]) == get_args(CompileChoice)


def test_every_command_has_an_example():
    assert EXAMPLES.keys() == dict(leaves(get_command(cli.app))).keys()


@pytest.mark.parametrize(
    "words", [["--data-root", "{}", "data", "list"], ["data", "--data-root", "{}", "list"]], ids=["root", "group"]
)
def test_an_option_of_all_commands_stands_anywhere(words: list[str], tmp_path: Path, run):
    after = run("data", "list", "--data-root", tmp_path)
    assert run(*(word.format(tmp_path) for word in words)) == after
    assert run("data", "list", f"--data-root={tmp_path}") == after


def test_an_option_of_all_commands_is_refused_where_it_has_no_effect(run):
    said = run.err(2, "data", "list", "--device", "cpu")
    assert said == "interlinear: No such option: --device. See `interlinear data list --help`.\n"
    assert "(Possible options: --data-root)" in run.err(2, "data", "list", "--data-rot", "x")


def test_a_group_without_a_command_prints_its_help(run):
    assert run.err(2, "data").startswith("Usage: interlinear data [OPTIONS] COMMAND")


def test_the_examples_of_the_help_are_calls_of_their_commands():
    commands = dict(leaves(get_command(cli.app)))
    assert EXAMPLES.keys() <= commands.keys()
    for words, examples in EXAMPLES.items():
        taken = commands["train"].params if words == "submit" else ()
        options = {name for option in (*commands[words].params, *group_options(words), *taken) for name in option.opts}
        for example in examples.split("\n"):
            assert example == words or example.startswith(f"{words} ")
            assert {word for word in shlex.split(example) if word.startswith("--")} <= options


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("tr", "train"),
        ("train rnnsearch_l", "rnnsearch_low_resource"),
        ("train rnnsearch --data multi30k-en-d", "multi30k-en-de-images"),
        ("evaluate --shuf", "--shuffle-images"),
        ("--track", "--tracking"),
    ],
)
def test_a_shell_gets_completions(shell, words, expected, main, monkeypatch, capsys):
    """As the shells' own functions ask for them: by environment variables."""
    monkeypatch.setenv("_INTERLINEAR_COMPLETE", f"complete_{shell}")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", f"interlinear {words}")
    monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
    monkeypatch.setenv("COMP_WORDS", f"interlinear {words}")
    monkeypatch.setenv("COMP_CWORD", str(len(words.split())))
    assert main() == 0
    assert expected in capsys.readouterr().out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_asks_for_completions(shell, run):
    assert f"_INTERLINEAR_COMPLETE=complete_{shell}" in run("completion", shell)


def test_completion_is_fast():
    script = "import sys; from interlinear.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
    asked = {"_INTERLINEAR_COMPLETE": "complete_bash", "COMP_WORDS": "interlinear train rnn", "COMP_CWORD": "2"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=os.environ | asked, capture_output=True, text=True, check=True
    )
    assert "rnnsearch" in done.stdout.split()
    assert not (HEAVY - {"yaml", "pydantic"}) & {name.partition(".")[0] for name in done.stderr.split()}


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., object]]:
    """Calls the entry point in this process; returns the exit code."""
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    handler = signal.getsignal(signal.SIGTERM)

    def call(*words: object) -> object:
        monkeypatch.setattr(sys, "argv", ["interlinear", *map(str, words)])
        with pytest.raises(SystemExit) as ended:
            runpy.run_module("interlinear.cli", run_name="__main__")
        return ended.value.code

    yield call
    signal.signal(signal.SIGTERM, handler)


def test_output_is_utf8_whatever_the_locale_is(main, toy, tmp_path, monkeypatch):
    line = "Łódź „hund“ läuft 狗"
    (tmp_path / "in.de").write_text(f"{line}\n", encoding="utf-8")
    out = TextIOWrapper(BytesIO(), "latin-1")
    monkeypatch.setattr(sys, "stdout", out)
    assert main("translate", toy, tmp_path / "in.de", "--json") == 0
    assert json.loads(cast(BytesIO, out.buffer).getvalue().decode())["source"] == line


def test_a_closed_stdout_is_named(main, monkeypatch, capsys):
    monkeypatch.setattr(sys, "stdout", None)
    assert main("--version") == 2
    assert "stdout: is closed, and results go there. Redirect it" in capsys.readouterr().err


def test_no_command_prints_help_and_version_prints_the_version(run):
    assert "translate" in run()
    assert run("--version").startswith("interlinear 0.")


@pytest.mark.parametrize(
    "arguments",
    [["--bogus"], ["bogus"], ["info"], ["info", "rnnsearch", "--bogus"], ["translate", "x", "--n-best", "0"]],
)
def test_a_usage_error_is_a_message_and_exit_code_2(arguments, run):
    out, said = run.both(*arguments, code=2)
    assert out == ""
    assert said.startswith("interlinear: ") and said.count("\n") == 1 and "--help" in said


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RecipeError("r.yaml", "bad key", "remove it"), 2, "interlinear: r.yaml: bad key. Remove it.\n"),
        (DataError("a.de", "no lines"), 1, "interlinear: a.de: no lines.\n"),
        (BundleError("b", "broken"), 1, "interlinear: b: broken.\n"),
        (KeyboardInterrupt(), 130, "interlinear: interrupted.\n"),
        (OSError(28, "No space left on device", "x/y"), 1, "interlinear: x/y: No space left on device.\n"),
        (ModuleNotFoundError("No module named 'ray'", name="ray.train"), 1, "pip install '.[train]'"),
        (ModuleNotFoundError("No module named 'fastapi'", name="fastapi"), 1, "pip install '.[serve]'"),
    ],
)
def test_expected_errors_are_messages(error, code, said, capsys):
    def work() -> None:
        raise error

    assert console.exit_code_of(work) == code
    assert said in capsys.readouterr().err


def test_an_unexpected_error_keeps_its_traceback():
    for bug in (ZeroDivisionError(), ModuleNotFoundError("No module named 'seq2sec'", name="seq2sec")):
        with pytest.raises(type(bug)):
            console.exit_code_of(lambda bug=bug: (_ for _ in ()).throw(bug))


def test_a_closed_pipe_is_no_error():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*COMMAND, "data", "list"], stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("sent", "code"), [pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow), (signal.SIGTERM, 143)]
)
def test_a_signal_ends_the_command_without_a_traceback(toy, sent, code):
    running = subprocess.Popen([*COMMAND, "translate", str(toy)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert running.stdin and running.stdout and running.stderr
    running.stdin.write("ein hund läuft .\n")
    running.stdin.flush()
    assert running.stdout.readline() != ""  # it has answered the first line, and waits for more
    running.send_signal(sent)
    _, said = running.communicate(timeout=20)
    assert running.returncode == code
    assert "Traceback" not in said


def test_an_install_without_extras_names_the_missing_extra(tmp_path):
    """MLflow is hidden, as if the extra were not installed."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['mlflow'] = None\n")
    done = subprocess.run([*COMMAND, "models"], env=os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{Path.cwd()}"},
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("interlinear: ") and "'.[train]'" in done.stderr
