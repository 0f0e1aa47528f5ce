"""The programs of docs/python-api.md run, in the order of the page."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python-api.md"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_page_runs(tmp_path):
    """As one program, like the cells of a notebook."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    assert len(blocks) >= 6
    script = tmp_path / "page.py"
    ending = 'print("version", answer["model"]["version"], "of", second)\n'
    script.write_text("\n".join(blocks).replace("8123", port) + ending, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "version 2 of 2"
