"""Our side of benchmarks/frontier.py: one process that searches with a bundle, from text to text.

python -m benchmarks.frontier_search OUTPUT BUNDLE --precision P [--shortlist] [--compile] --beam N --threads N
    --lines FILE --alone N
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch

import interlinear
from benchmarks.peers.search_times import measure
from interlinear.bundle import with_compiled_search
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.memory_allocator import keep_freed_memory
from interlinear.search.compiled import compiling

SLOTS = 32  # sentences that are searched together


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--precision", choices=["fp32", "bf16", "int8"], required=True)
    parser.add_argument("--shortlist", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--beam", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--lines", type=Path, required=True)
    parser.add_argument("--alone", type=int, required=True)
    asked = parser.parse_args()
    keep_freed_memory()  # as the command does
    torch.set_num_threads(asked.threads)
    bundle = interlinear.load(asked.bundle, precision=asked.precision, shortlist=asked.shortlist)
    if asked.compile:
        bundle = with_compiled_search(bundle)
    options = bundle.card.search.model_copy(update={"beam": asked.beam})
    source = next(iter(bundle.card.model.texts))

    def translate(lines: Sequence[str]) -> list[str]:
        outputs = []
        generator = SequenceGenerator(bundle, slots=min(SLOTS, len(lines)), width=options.beam)
        for answer in generator.generate(Request({source: line}, options) for line in lines):
            assert isinstance(answer, GenerationResult)
            outputs.append(answer.candidates[0].text)
        return outputs

    if asked.compile:  # as a service before it is ready: for several sentences, and for one
        with compiling():
            translate(["a", "b"])
            translate(["a"])
    measure(asked.output, translate, translate, asked.lines.read_text("utf-8").splitlines(), asked.alone)


if __name__ == "__main__":
    main()
