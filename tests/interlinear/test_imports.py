"""Imports of each command before its work begins: no slow module that it does not use."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Each command with arguments that end it early, and packages or modules that it must not import.
COMPILER = ("torch._dynamo", "torch._inductor", "sympy")
EVER = ("ray", "matplotlib", "sklearn", "torchvision")
CALLS = {
    "info of a recipe": (["info", "rnnsearch"], (*EVER, *COMPILER, "mlflow", "pandas", "scipy", "fastapi", "PIL")),
    "info of a model": (["info", "{toy}"], (*EVER, *COMPILER, "mlflow", "pandas", "scipy", "fastapi")),
    "translate": (["translate", "{toy}", "{text}"], (*EVER, *COMPILER, "mlflow", "pandas", "scipy", "fastapi")),
    "models": (["models", "--tracking", "sqlite:///none.db"], (*EVER, *COMPILER, "torch", "sacrebleu")),
    "data list": (["data", "list"], (*EVER, "torch", "mlflow", "pandas", "scipy", "fastapi")),
    "train": (
        ["train", "rnnsearch", "--data", "demo", "--workers", "640"],
        (*EVER, *COMPILER, "mlflow", "pandas", "fastapi"),
    ),
    "serve": (["serve", "--model", "{toy}", "--host", "256.0.0.1"], (*EVER, "torch._inductor", "mlflow", "pandas")),
}
SCRIPT = "import sys; from interlinear import cli; cli.run(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"


@pytest.mark.parametrize("name", CALLS)
def test_a_command_imports_no_more_than_it_needs(name: str, toy: Path, tmp_path: Path):
    words, forbidden = CALLS[name]
    text = tmp_path / "text"
    text.write_text("ein hund\n")
    called = [word.format(toy=toy, text=text) for word in words]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *called], capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    imported = set(done.stderr.splitlines()[-1].split())
    assert not imported & set(forbidden)
