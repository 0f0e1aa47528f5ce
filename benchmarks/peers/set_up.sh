#!/usr/bin/env bash
# Sets the public trainers that we compare with up in FOLDER: an environment of their own, data, configurations.
#
#     benchmarks/peers/set_up.sh FOLDER
#
# Both declare old versions of their requirements (JoeyNMT protobuf < 3.21, OpenNMT-py torch < 2.3) and run with new
# ones, so they are installed without, and what they import is installed beside them. What is there is left as it is.
set -euo pipefail

if [ $# -ne 1 ]; then
    echo "usage: $0 FOLDER" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
python="$folder/venv/bin/python"

if [ ! -e "$folder/venv/.done" ]; then
    "${PYTHON:-python3}" -m venv "$folder/venv"
    "$python" -m pip install --quiet torch==2.13.0
    "$python" -m pip install --quiet --no-deps joeynmt==2.3.0 OpenNMT-py==3.5.1
    "$python" -m pip install --quiet numpy pyyaml sacrebleu sacremoses sentencepiece subword-nmt matplotlib seaborn \
        tensorboard packaging pandas datasets plotly importlib_metadata ctranslate2 \
        configargparse rapidfuzz pyahocorasick flask waitress six "pyonmttok>=1.37,<2" spacy
    # OpenNMT-py imports fasttext for a filter that is not used here, and it does not build on new compilers.
    packages=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    echo '"""Stands in for fasttext, which OpenNMT-py imports and does not use here."""' > "$packages/fasttext.py"
    touch "$folder/venv/.done"
fi

[ -e "$folder/data/vocabulary.txt" ] || "$python" "$here/write_data.py" "$folder/data"
echo "$folder: JoeyNMT 2.3.0 and OpenNMT-py 3.5.1 are ready"
