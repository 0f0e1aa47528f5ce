"""The size of the packages that an image installs for extras of pyproject.toml, measured in the running environment.

python docker/size.py serve postgres           megabytes of each package, the largest first, and the sum
python docker/size.py serve postgres mlflow    the same, with a package that no extra names

A package's files are those of its RECORD, including bytecode, as pip installs them in an image.
"""

import sys
import tomllib
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent


def closure(lines: Sequence[str]) -> set[str]:
    """The packages of these requirements, with their dependencies on this system."""
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
                needs = distribution(name).requires or []
            except PackageNotFoundError:
                sys.exit(f"docker/size.py: {name} is not installed here. Install the extras that you name, and it.")
            found.add(name)
            waiting += [(Requirement(line), chosen) for line in needs]
    return found


def installed_bytes(name: str) -> int:
    files = distribution(name).files or []
    paths = [Path(str(file.locate())) for file in files]
    return sum(path.stat().st_size for path in paths if path.is_file())


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = list(project["dependencies"])
    for word in sys.argv[1:]:
        wanted += project["optional-dependencies"].get(word, [word])
    sizes = {name: installed_bytes(name) for name in closure(wanted)}
    for name, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        print(f"{size / 1e6:8.1f} MB  {name}")
    print(f"{sum(sizes.values()) / 1e6:8.1f} MB  {len(sizes)} packages")
