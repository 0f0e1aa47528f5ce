#!/usr/bin/env bash
# Installs Argos Translate's translation of HTML, for research/quality/markup.py:    benchmarks/peers/argos.sh FOLDER
# It is run without models: the benchmark translates.
set -euo pipefail

folder=${1:?"usage: benchmarks/peers/argos.sh FOLDER"}
python3 -m venv "$folder/venv"
# torch first, without CUDA: what follows depends on it.
"$folder/venv/bin/pip" install --quiet torch==2.13.0
"$folder/venv/bin/pip" install --quiet translatehtml==1.5.3 argostranslate==1.11.0
"$folder/venv/bin/python" -c "import translatehtml"
echo "$folder is ready"
