"""Ends a command at its start where other files hide its modules: they would be imported instead, or fail later.

Imports nothing of the project, since any of its modules may be hidden.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

MODULES = ("interlinear", "training", "service")
ROOT = Path(__file__).resolve().parent.parent  # where all packages are


def end_if_hidden(*further: str) -> None:
    """Exit with code 2, naming the file, where a package of the project is found elsewhere than beside this one.

    `further`: names of more packages that have to be there.
    """
    for name in (*MODULES, *further):
        spec = find_spec(name)
        if spec is None:
            continue
        found = Path(spec.origin or next(iter(spec.submodule_search_locations or ()))).resolve()
        if not found.is_relative_to(ROOT / name):
            print(
                f"interlinear: {found}: hides the module '{name}' of Interlinear, which is in {ROOT}. Rename it, or "
                "keep its folder off Python's path: call `interlinear` or `python -P -m`, and mind PYTHONPATH.",
                file=sys.stderr,
            )
            sys.exit(2)
