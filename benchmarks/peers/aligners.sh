#!/usr/bin/env bash
# Makes an environment in FOLDER with the word aligners that research/quality/alignment.py compares with ours, from PyPI.
#
#     benchmarks/peers/aligners.sh FOLDER
#
# eflomal is compiled: it needs a C compiler with OpenMP, and Python's headers. What is there is left as it is.
set -euo pipefail

if [ $# -ne 1 ]; then
    echo "usage: $0 FOLDER" >&2
    exit 2
fi
mkdir -p "$1"
folder=$(cd "$1" && pwd)

if [ ! -e "$folder/venv/.done" ]; then
    "${PYTHON:-python3}" -m venv "$folder/venv"
    "$folder/venv/bin/python" -m pip install --quiet eflomal==2.0.0 systran-align==3.5.0
    touch "$folder/venv/.done"
fi
echo "$folder: eflomal 2.0.0 and systran-align 3.5.0 are ready"
