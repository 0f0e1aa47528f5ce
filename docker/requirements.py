"""Prints the requirements that images install before our own code: those of extras in pyproject.toml, one per line.

python requirements.py train serve       the project's own requirements, and those of two extras
python requirements.py --only tracking   those of an extra only
"""

import sys
import tomllib
from pathlib import Path

if __name__ == "__main__":
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [extra for extra in sys.argv[1:] if extra != "--only"]
    if "--only" not in sys.argv:
        print(*project["dependencies"], sep="\n")
    for extra in extras:
        print(*project["optional-dependencies"][extra], sep="\n")
