"""The installation: the distribution's name, how an extra of it is installed, and the Python of child processes."""

import shlex
import sys

DISTRIBUTION = "interlinear-nmt"  # in a package's metadata; the command and the import are `interlinear`

# The distribution is on no package index, so its name there could be anybody's: `pip` gets a path.
INSTALL = "run pip install '.[{extra}]' in a clone of Interlinear, or pip install 'PATH/TO/WHEEL[{extra}]'"

# `python -m` and `python -c` put the working folder first on the path; -P does not, so that a file there hides no
# module. Python's own child processes (multiprocessing, Ray, torch.compile) read SAFE_PATH instead.
PYTHON = (sys.executable, "-P")
SAFE_PATH = {"PYTHONSAFEPATH": "1"}


def shell_command(*words: object) -> str:
    """An `interlinear` command, quoted for a shell."""
    return shlex.join(("interlinear", *map(str, words)))


def how_to_install(extra: str) -> str:
    """The remedy where an extra is missing."""
    return INSTALL.format(extra=extra)
