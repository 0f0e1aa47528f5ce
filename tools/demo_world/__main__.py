"""Writes the text of the demo data sets: python -m tools.demo_world [FOLDER]."""

import argparse
from pathlib import Path

from tools.demo_world.files import write_demo_world

parser = argparse.ArgumentParser(prog="python -m tools.demo_world", description="Write the text of the demo data sets.")
parser.add_argument("folder", nargs="?", type=Path, default=Path("corpora"), help="else corpora")
write_demo_world(parser.parse_args().folder)
