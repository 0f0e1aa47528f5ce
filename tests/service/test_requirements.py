"""The dependencies of the extra `serve` suffice to serve: tested in this environment with all others
hidden."""

import importlib.metadata
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from interlinear.installation import DISTRIBUTION

ROOT = Path(__file__).parents[2]
SERVING = """
    import importlib.abc
    import sys
    from pathlib import Path

    tracking, cache, *absent = sys.argv[1:]

    class Absent(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in absent:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    sys.meta_path.insert(0, Absent())
    from service.app import create_app
    from service.settings import ServedModelConfig, Settings

    models = (ServedModelConfig(name="de-en", uri="models:/mt@champion"),)
    app = create_app(Settings(models=models, tracking=tracking, cache=Path(cache)))
    (served,) = app.state.service.models.for_task("translation")
    print(served.version)
"""


def brought_by(*extras: str) -> set[str]:
    """The distributions that an install with these extras includes, and the requirements of each."""
    command = [sys.executable, ROOT / "docker" / "size.py", *extras]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1] for line in printed[:-1]}


@pytest.mark.slow
def test_a_service_reads_the_registry_with_its_extra_alone(registered, tmp_path):
    brought = brought_by("serve")
    assert {"mlflow-skinny", "sqlalchemy", "fastapi"} <= brought
    assert not {"mlflow", "scikit-learn", "pandas", "scipy", "pyarrow", "flask", "gunicorn", "ray"} & brought
    absent = [
        module
        for module, distributions in importlib.metadata.packages_distributions().items()
        if not {canonicalize_name(name) for name in distributions} & (brought | {DISTRIBUTION})
    ]
    assert "pandas" in absent and "sklearn" in absent
    words = [registered.tracking, str(tmp_path / "cache"), *absent]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SERVING), *words],
        cwd=ROOT, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["1"]
