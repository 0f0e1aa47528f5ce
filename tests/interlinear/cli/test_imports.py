"""Imports of each command before its work begins: no slow module that it does not use."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Commands with arguments that end them early, and packages or modules that they must not import. The commands of a
# group run one after another in one process: none may import more than those after it.
COMPILER = ("torch._dynamo", "torch._inductor", "sympy")
EVER = ("ray", "matplotlib", "sklearn", "torchvision")
GROUPS = {
    "without torch": [
        (["data", "list"], (*EVER, "torch", "mlflow", "pandas", "scipy", "fastapi")),
        (["models", "--tracking", "sqlite:///none.db"], (*EVER, *COMPILER, "torch", "sacrebleu")),
    ],
    "with torch": [
        (["info", "rnnsearch"], (*EVER, *COMPILER, "mlflow", "pandas", "scipy", "fastapi", "PIL")),
        (["info", "{toy}"], (*EVER, *COMPILER, "mlflow", "pandas", "scipy", "fastapi")),
        (["translate", "{toy}", "{text}"], (*EVER, *COMPILER, "mlflow", "pandas", "scipy", "fastapi")),
        (
            ["train", "rnnsearch", "--data", "demo", "--workers", "640"],
            (*EVER, *COMPILER, "mlflow", "pandas", "fastapi"),
        ),
        (["serve", "--model", "{toy}", "--host", "256.0.0.1"], (*EVER, "torch._inductor", "mlflow", "pandas")),
    ],
}
SCRIPT = """
import json, sys
from interlinear import cli
for words in json.loads(sys.argv[1]):
    cli.run(words)
    print("imported", *sys.modules, file=sys.stderr)
"""


@pytest.mark.parametrize("name", GROUPS)
def test_a_command_imports_no_more_than_it_needs(name: str, toy: Path, tmp_path: Path):
    text = tmp_path / "text"
    text.write_text("ein hund\n")
    called = [[word.format(toy=toy, text=text) for word in words] for words, _ in GROUPS[name]]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(called)], capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip
    imported = [line.split() for line in done.stderr.splitlines() if line.startswith("imported ")]
    for modules, (words, forbidden) in zip(imported, GROUPS[name], strict=True):
        assert not {*modules} & {*forbidden}, words
