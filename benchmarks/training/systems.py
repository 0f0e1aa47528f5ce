"""Cost of each system compared with the recipe that it extends: a training update, its operations, and search.

    python -m benchmarks.training.systems [--rounds 5] [--threads 1] [--precision fp32] [--save]

Everything runs in this process, interleaved: an update of every system, then again. Two systems that do the same work
in search (`uam` and `selective_gate`) are also searched with, interleaved.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.reporting import Report, alone, median, say
from seq2seq.batch import Batch, ImageInput, collate
from seq2seq.config import ImageGrid, ModelConfig, TextVocabulary
from seq2seq.memory_allocator import keep_freed_memory
from seq2seq.model.model import Model, build
from seq2seq.search import SearchOptions, SearchRequest, SlotTable
from training.recipe import load_recipe

EXTENDS = {
    "word_attention": "rnnsearch", "contextual_gates": "word_attention", "rnnsearch_star": "rnnsearch",
    "interactive_attention": "rnnsearch_star", "coverage_neural": "rnnsearch_star",
    "coverage_linguistic": "rnnsearch_star", "luong": "rnnsearch", "selective_gate": "luong", "uam": "selective_gate",
    **{f"{task}_{how}": "rnnsearch_star" for task in ("multimodal", "postedit")
       for how in ("concat", "flat", "hierarchical")},
}  # fmt: skip
VOCABULARY, SENTENCES, SOURCE, TARGET, SIZE = 8000, 32, 20, 20, 256
IMAGE = ImageGrid(rows=7, columns=7, features=128)

NOTES = (
    f"An update: {SENTENCES} sentences of {SOURCE} words a side, vocabularies of {VOCABULARY:,}, E = H = {SIZE}, one "
    "layer a side, no dropout, forward, backward and Adam; a second text as long, or an image's given features of "
    f"{IMAGE.rows} x {IMAGE.columns} regions. *Ratio* is to the recipe that a system extends, of medians.",
    "*Operations* are counted in one forward and backward as torch dispatches them: multiplications and additions of "
    "every matrix product, and one for every number that any other operation makes; the encoder's kernels by their "
    "equations; Adam left out. *Beyond* is the ratio of times over the ratio of operations.",
)


class Operations(TorchDispatchMode):
    """Counts multiplications and additions."""

    products = ("addmm", "mm", "bmm", "baddbmm")
    moves = ("view", "t", "transpose", "expand", "slice", "select", "split", "unbind", "detach", "alias", "unsqueeze",
             "squeeze", "permute", "_unsafe_view", "reshape", "as_strided", "empty", "empty_like", "unflatten", "chunk",
             "_to_copy", "copy_", "clone", "cat", "stack", "split_with_sizes", "zeros", "zeros_like", "fill_",
             "new_zeros", "new_empty", "select_backward", "slice_backward", "constant_pad_nd")  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, arguments: tuple[Any, ...] = (), keywords: dict[str, Any] | None = None
    ) -> Any:
        result = function(*arguments, **(keywords or {}))
        name = function._schema.name.removeprefix("aten::")
        tensors = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        if name in self.products:
            first = arguments[-2]
            self.count += 2 * tensors[0].numel() * first.shape[-1]
        elif name not in self.moves:
            self.count += sum(tensor.numel() for tensor in tensors)
        return result


def encoder_operations(model: Model, batch: Batch) -> int:
    """Multiplications and additions of the encoder's kernels, forward and (twice as many) backward."""
    rows, width = batch.text("source").ids_BT.shape
    weights = sum(
        p.numel()
        for text in model.texts.values()
        for m in text.recurrent.modules()
        if isinstance(m, nn.RNNBase)
        for p in m.parameters()
        if p.dim() == 2
    )
    return 3 * 2 * rows * width * weights


def model_of(system: str) -> Model:
    recipe = load_recipe(system)
    chosen = recipe.model.model_dump(exclude={"dropout", "layers", "embedding", "hidden"})
    words = TextVocabulary(vocabulary=VOCABULARY)
    sources = {name: words if settings.kind == "text" else IMAGE for name, settings in recipe.sources.items()}
    torch.manual_seed(1)
    return build(ModelConfig(**chosen, embedding=SIZE, hidden=SIZE, sources=sources, target=words))


def batch_of(model: Model, sentences: int = SENTENCES) -> Batch:
    torch.manual_seed(1)
    target, *texts = torch.randint(4, VOCABULARY, (1 + len(model.config.texts), sentences, SOURCE - 1)).tolist()
    regions = torch.full((sentences,), IMAGE.regions)
    images = {name: torch.randn(sentences, IMAGE.regions, IMAGE.features) for name in model.config.images}
    return collate(
        dict(zip(model.config.texts, texts, strict=True)),
        target,
        images={name: ImageInput(features, regions) for name, features in images.items()},
    )


def updater(model: Model, batch: Batch, precision: str) -> Callable[[], None]:
    optimizer = torch.optim.Adam(model.parameters(), fused=True)

    def update() -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else nullcontext():
            loss = model.loss(batch)
        (loss.objective / (SENTENCES * TARGET)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    return update


def operations(model: Model, batch: Batch) -> int:
    with Operations() as counted:
        model.loss(batch).objective.backward()
    return counted.count + encoder_operations(model, batch)


def searcher(model: Model) -> Callable[[], None]:
    model.eval()
    options = SearchOptions(beam=5, min_length=TARGET, max_length=TARGET)
    batch = replace(batch_of(model), target_BL=None)

    def search() -> None:
        table = SlotTable(model, options.beam)
        table.admit(batch, [SearchRequest(key, options, TARGET) for key in range(SENTENCES)])
        while table.active:
            table.step()
            table.pop_finished()

    return search


def interleaved(what: dict[str, Callable[[], None]], rounds: int, each: int) -> dict[str, list[float]]:
    """Seconds of every run, after a warm-up run."""
    for run in what.values():
        run()
    seconds = defaultdict(list)
    for _ in range(rounds):
        for name, run in what.items():
            for _ in range(each):
                begun = time.perf_counter()
                run()
                seconds[name].append(time.perf_counter() - begun)
    return dict(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32")
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    keep_freed_memory()  # as the command does
    torch.set_num_threads(asked.threads)
    models = {system: model_of(system) for system in ("rnnsearch", *EXTENDS)}
    batches = {system: batch_of(model) for system, model in models.items()}
    counts = {system: operations(model, batches[system]) for system, model in models.items()}
    with alone():
        seconds = interleaved(
            {name: updater(model, batches[name], asked.precision) for name, model in models.items()}, asked.rounds, 3
        )
        searches = interleaved(
            {name: searcher(models[name]) for name in ("rnnsearch", "luong", "selective_gate", "uam")}, asked.rounds, 2
        )
    times = {name: median(runs) for name, runs in seconds.items()}
    search = {name: median(runs) for name, runs in searches.items()}
    rows = []
    for name in models:
        base = EXTENDS.get(name, name)
        ratio, work = times[name] / times[base], counts[name] / counts[base]
        say(f"{name}: {1000 * times[name]:.0f} ms")
        rows.append([
            name, base if name != base else "", f"{1000 * times[name]:.0f}", f"{ratio:.2f}",
            f"{counts[name] / 1e9:.2f}", f"{work:.2f}", f"{ratio / work:.2f}",
            f"{1000 * search[name]:.0f}" if name in search else "",
        ])  # fmt: skip
    same = f"Search with uam takes {search['uam'] / search['selective_gate']:.3f} of what selective_gate's takes."
    Report(
        "systems",
        f"Systems beside the recipes that they extend, {asked.precision}, {asked.threads} thread(s)",
        [
            "system",
            "extends",
            "ms an update",
            "ratio",
            "10^9 operations",
            "ratio",
            "beyond",
            "ms, beam 5, 32 sentences",
        ],
        rows,
        [*NOTES, same],
        {"update": seconds, "search": searches, "operations": counts},
    ).publish(asked.save)


if __name__ == "__main__":
    main()
