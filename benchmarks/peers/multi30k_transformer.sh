#!/usr/bin/env bash
# A small Transformer of OpenNMT-py on Multi30k in our recipe's own subwords, beside which `python -m research reproduce
# multi30k` shows our systems: trains it, and writes its outputs of both test sets.
#
#     INTERLINEAR_DATA=CORPORA benchmarks/peers/multi30k_transformer.sh PEERS en-de SEED STEPS OUTPUTS
#
# PEERS has OpenNMT-py (set_up.sh). A training that was interrupted resumes; checkpoints of the last steps are averaged.
# Outputs: OUTPUTS/multi30k.en-de.transformer.SEED.SPLIT.gz; dev too, by which STEPS can be chosen.
set -euo pipefail

if [ $# -ne 5 ]; then
    echo "usage: INTERLINEAR_DATA=CORPORA $0 PEERS en-de|en-fr|de-en SEED STEPS OUTPUTS" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
peers=$(cd "$1" && pwd) pair=$2 seed=$3 steps=$4
mkdir -p "$5"
outputs=$(cd "$5" && pwd)
folder="$peers/multi30k-$pair"
bin="$peers/venv/bin"
ours=${INTERLINEAR_PYTHON:-$here/../../.venv/bin/python}
# OpenNMT-py's checkpoints contain an argparse.Namespace, which torch does not unpickle by default.
export TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1 PYTHONPATH="$here/../.."

mkdir -p "$folder/$seed"
[ -e "$folder/test_2017.target" ] || "$ours" "$here/multi30k_data.py" write "multi30k-$pair" "$folder"
averaged="$folder/$seed/averaged.$steps.pt"
if [ ! -e "$averaged" ]; then
    sed "s|FOLDER|$folder|g; s|SEED|$seed|g; s|STEPS|$steps|g" "$here/multi30k_transformer.yaml" > "$folder/$seed.yaml"
    newest=$(find "$folder/$seed" -name 'model_step_*.pt' | sort --version-sort | tail --lines 1)
    resumed=()
    [ -n "$newest" ] && resumed=(-train_from "$newest")
    PYTHONPATH='' "$bin/python" -m onmt.bin.train -config "$folder/$seed.yaml" "${resumed[@]}" >> "$folder/$seed.log" 2>&1
    # A resumed training leaves the older checkpoints of the interrupted one beside the last ten.
    mapfile -t checkpoints < <(find "$folder/$seed" -name 'model_step_*.pt' | sort --version-sort | tail --lines 10)
    PYTHONPATH='' "$bin/onmt_average_models" -models "${checkpoints[@]}" -output "$averaged.part" >> "$folder/$seed.log" 2>&1
    mv "$averaged.part" "$averaged"
fi
for split in dev test test_2017; do
    PYTHONPATH='' "$bin/onmt_translate" -model "$averaged" -src "$folder/$split.source" -beam_size 5 -batch_size 32 \
        -length_penalty avg -max_length 100 -output "$folder/$seed/$split.ids" >> "$folder/$seed.log" 2>&1
    "$ours" "$here/multi30k_data.py" decode "$folder" "$folder/$seed/$split.ids" \
        "$outputs/multi30k.$pair.transformer.$seed.$split.gz"
done
ls "$outputs"/multi30k."$pair".transformer."$seed".*
