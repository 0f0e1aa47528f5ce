"""What `pip install interlinear[serve]` brings suffices to serve: in this environment, with all else taken away."""

import importlib.metadata
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.service.test_on_ray import registered

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
    from service.settings import ModelPlace, Settings

    places = (ModelPlace(name="de-en", place="models:/mt@champion"),)
    app = create_app(Settings(models=places, tracking=tracking, cache=Path(cache)))
    (served,) = app.state.service.models.doing("translation")
    print(served.identity.version)
"""


def brought_by(*extras: str) -> set[str]:
    """The distributions that an install with these extras brings, and what each of them needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    waiting = [(Requirement(line), "") for line in lines]
    found: set[str] = set()
    done: set[tuple[str, str]] = set()
    while waiting:
        wanted, extra = waiting.pop()
        if wanted.marker and not wanted.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(wanted.name)
        for chosen in {"", *wanted.extras}:
            if (name, chosen) in done:
                continue
            done.add((name, chosen))
            try:
                needs = importlib.metadata.requires(name) or []
            except importlib.metadata.PackageNotFoundError:
                continue  # for another system
            found.add(name)
            waiting += [(Requirement(line), chosen) for line in needs]
    return found


def test_a_service_reads_the_registry_with_what_its_extra_brings(bundles, tmp_path):
    brought = brought_by("serve")
    assert {"mlflow-skinny", "sqlalchemy", "fastapi"} <= brought
    assert not {"mlflow", "scikit-learn", "pandas", "scipy", "pyarrow", "flask", "gunicorn", "ray"} & brought
    absent = [
        module
        for module, distributions in importlib.metadata.packages_distributions().items()
        if not {canonicalize_name(name) for name in distributions} & (brought | {"interlinear"})
    ]
    assert "pandas" in absent and "sklearn" in absent
    registered(bundles, tmp_path)
    words = [f"sqlite:///{tmp_path}/mlflow.db", str(tmp_path / "cache"), *absent]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SERVING), *words],
        cwd=ROOT, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["1"]
