"""The programs on the API documentation page run as printed."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[3] / "docs" / "rest-api.md").read_text(encoding="utf-8")
PROGRAMS = [
    (language, program)
    for language, program in re.findall(r"```(python|javascript)\n(.*?)```", PAGE, re.DOTALL)
    if "interlinear_client" not in program  # that one is generated: test_generated_clients.py
]
RUN = {"python": [sys.executable, "-c"], "javascript": ["node", "--input-type=module", "-e"]}


@pytest.mark.parametrize(("language", "program"), PROGRAMS, ids=[language for language, _ in PROGRAMS])
def test_a_program_of_the_page_translates(address, language, program):
    command = RUN[language]
    if not shutil.which(command[0]):
        pytest.skip(f"there is no {command[0]} here")
    assert "http://localhost:8000" in program
    program = program.replace("http://localhost:8000", address)
    done = subprocess.run([*command, program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "A dog is running." in done.stdout
    if "alignment" in program:
        assert " - dog\n" in done.stdout and "A woman is sitting." in done.stdout
