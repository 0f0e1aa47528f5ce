"""The service conforms to its OpenAPI description: all of schemathesis's checks, on every route."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

CONFIGURED = Path(__file__).parents[3] / "schemathesis.toml"  # schemathesis reads it from the folder
PHASES = ["Examples", "Coverage", "Fuzzing", "Stateful"]


def run(address: str, folder: Path, *options: str) -> int:
    """The number of requests that were sent; all responses must conform to the description."""
    command = Path(sys.executable).with_name("schemathesis")
    arguments = ["run", f"{address}/openapi.json", "--phases", ",".join(PHASES).lower(), *options]
    ran = subprocess.run(
        [command, "--no-color", "--config-file", CONFIGURED, *arguments, "--generation-database", "none"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert all(f"✅ {phase}\n" in ran.stdout for phase in PHASES), ran.stdout
    (sent,) = re.findall(r"([\d,]+) generated", ran.stdout)
    return int(sent.replace(",", ""))


@pytest.mark.timeout(600)
def test_hundreds_of_requests_conform_to_openapi(address, tmp_path):
    assert run(address, tmp_path, "--max-examples", "1", "--seed", "1") > 300


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_thousands_of_requests_conform(address, tmp_path):
    assert run(address, tmp_path, "--max-examples", "500") > 2500
