#!/usr/bin/env bash
# Trains the models that benchmarks/frontier.py compares with ours, on Multi30k, German to English, in FOLDER.
#
#     INTERLINEAR_DATA=CORPORA benchmarks/peers/frontier.sh FOLDER [opennmt|joeynmt|transformer ...]
#
# A step whose output is there is skipped, and a training of OpenNMT-py resumes; without names all three are trained,
# which takes hours on one core. OMP_NUM_THREADS sets the number of threads. What a training says is in FOLDER/NAME.log.
set -euo pipefail

if [ $# -lt 1 ]; then
    echo "usage: INTERLINEAR_DATA=CORPORA $0 FOLDER [opennmt|joeynmt|transformer ...]" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
"$here/set_up.sh" "$1"
folder=$(cd "$1" && pwd)
shift
corpora=${INTERLINEAR_DATA:-data}
bin="$folder/venv/bin"
data="$folder/multi30k"
# OpenNMT-py's checkpoints contain an argparse.Namespace, which torch does not unpickle by default.
export TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1
# CTranslate2's converter asks for safe loading, which the variable does not override.
convert='
import argparse, torch
from ctranslate2.converters.opennmt_py import main
torch.serialization.add_safe_globals([argparse.Namespace])
main()
'

configuration() { # NAME: the configuration with FOLDER filled in; prints its path
    sed "s|FOLDER|$folder|g" "$here/frontier_$1.yaml" > "$folder/frontier_$1.yaml"
    echo "$folder/frontier_$1.yaml"
}

train_opennmt() { # NAME: one of OpenNMT-py's models, the average of its last five checkpoints
    [ -e "$folder/$1/averaged.pt" ] && return
    mkdir -p "$folder/$1"
    local newest resumed=()
    newest=$(find "$folder/$1" -name 'model_step_*.pt' | sort --version-sort | tail --lines 1)
    [ -n "$newest" ] && resumed=(-train_from "$newest")
    "$bin/python" -m onmt.bin.train -config "$(configuration "$1")" "${resumed[@]}" >> "$folder/$1.log" 2>&1
    mapfile -t checkpoints < <(find "$folder/$1" -name 'model_step_*.pt')
    "$bin/onmt_average_models" -models "${checkpoints[@]}" -output "$folder/$1/averaged.part" >> "$folder/$1.log" 2>&1
    mv "$folder/$1/averaged.part" "$folder/$1/averaged.pt"
}

[ -e "$data/joeynmt.target" ] || "$bin/python" "$here/frontier_data.py" "$corpora" "$data"

for name in "${@:-transformer opennmt joeynmt}"; do
    for model in $name; do
        case "$model" in
        opennmt)
            train_opennmt opennmt
            ;;
        transformer)
            train_opennmt transformer
            [ -e "$data/vocabulary.map" ] ||
                "$bin/python" "$here/vocabulary_map.py" "$data"/train.pieces.{source,target} "$data/vocabulary.map"
            [ -e "$folder/ctranslate2/model.bin" ] ||
                "$bin/python" -c "$convert" --model_path "$folder/transformer/averaged.pt" --quantization int8 \
                    --vocab_mapping "$data/vocabulary.map" --output_dir "$folder/ctranslate2" --force
            ;;
        joeynmt)
            if [ ! -e "$folder/joeynmt-multi30k/.trained" ]; then
                "$bin/python" -m joeynmt train "$(configuration joeynmt)" --skip-test > "$folder/joeynmt.log" 2>&1
                touch "$folder/joeynmt-multi30k/.trained"
            fi
            ;;
        *)
            echo "$0: '$model' is none of opennmt, joeynmt, transformer" >&2
            exit 2
            ;;
        esac
    done
done
echo "$folder: the models of benchmarks/frontier.py are ready"
