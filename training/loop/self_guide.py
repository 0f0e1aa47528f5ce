"""A guide from the model in training itself: its alignments of the training pairs, symmetrised with the alignments by a
model of the opposite direction (agreement; Cheng et al. 2016).

Axes: B rows, L target pieces, T source pieces, I source words, J target words.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import numpy as np
import torch

from interlinear.alignment.links import Link, symmetrize
from interlinear.batch import collate
from interlinear.explanation import largest_weights
from interlinear.models.attention_reading import quick_reading
from interlinear.models.model import Model
from training.data.guide.piece_links import RowArrays, membership, piece_links
from training.data.guide.stored_guide import WordLinks
from training.data.prepare.prepared import TARGET, PreparedSplit
from training.loop.process_group import ProcessGroup

BATCH_TOKENS = 4096  # target tokens, padding included, that are decoded together
BLOCK_ROWS = 1 << 14  # after which workers exchange links: none waits long for another
LINKS, ENDS = "guide.links", "guide.ends"  # in a training state


def align_training_pairs(
    model: Model,
    data: PreparedSplit,
    words: WordLinks,
    workers: ProcessGroup,
    device: torch.device,
    precision: Callable[[], AbstractContextManager[object]],
) -> RowArrays:
    """The links between pieces of every training pair, by the model's best reading and grow-diag-final-and.

    Each worker aligns its share of the rows, and all have all links at the end.
    """
    training = model.training
    model.eval()
    links: list[np.ndarray] = []
    for start in range(0, data.rows, BLOCK_ROWS):
        block = np.arange(start, min(start + BLOCK_ROWS, data.rows))
        own = block[workers.rank :: workers.world_size]
        with torch.no_grad(), precision():
            found = dict(align_rows(model, data, words, own, device))
        shares = [iter(share) for share in workers.all_gather([found[int(row)] for row in own])]
        links += [next(shares[number % workers.world_size]) for number in range(len(block))]
    model.train(training)
    torch.clear_autocast_cache()  # weights cast without a gradient
    return RowArrays.of(links)


def align_rows(
    model: Model, data: PreparedSplit, words: WordLinks, rows: np.ndarray, device: torch.device
) -> Iterator[tuple[int, np.ndarray]]:
    """Rows in batches of similar length, each with its links (target piece, source piece)."""
    source = model.config.first_text
    lengths = data.row_lengths(TARGET, rows)
    for batch_rows in batches(rows[np.argsort(lengths, kind="stable")], np.sort(lengths)):
        texts = {name: [data.ids(name, row) for row in batch_rows] for name in model.config.texts}
        batch = collate(
            {name: [ids if len(ids) or name == source else None for ids in column] for name, column in texts.items()},
            [data.ids(TARGET, row) for row in batch_rows],
        ).to(device)
        assert batch.target_BL is not None
        reading = quick_reading(model.readings)
        attention_weights = model.forced_attention(model.encode(batch), batch.target_BL[:, None], reading)
        weights_BLT = attention_weights.matrices(source, reading)[reading.matrix][:, 0].float().cpu().numpy()
        for row, weights_LT in zip(batch_rows, weights_BLT, strict=True):
            source_T2, target_L2 = words.source.row(row), words.target.row(row)
            own = weights_LT[: len(target_L2), : len(source_T2)]
            forward = link_words(own, source_T2, target_L2)
            backward = [(int(i), int(j)) for i, j in words.reverse.row(row)]
            yield row, piece_links(source_T2, target_L2, symmetrize(forward, backward, "grow-diag-final-and"))


def batches(rows: np.ndarray, lengths: np.ndarray) -> Iterator[Sequence[int]]:
    """Cut rows in ascending order of their lengths into batches of at most BATCH_TOKENS, or of one row."""
    start = 0
    for end in range(1, len(rows) + 1):
        if end == len(rows) or (end + 1 - start) * (lengths[end] + 1) > BATCH_TOKENS:
            yield [int(row) for row in rows[start:end]]
            start = end


def link_words(weights_LT: np.ndarray, source_T2: np.ndarray, target_L2: np.ndarray) -> list[Link]:
    """Each target word's link to the source word with the largest weight.

    Weights between pieces are pooled as `interlinear align` does: the sum over a source word's pieces, the mean over a
    target word's; a piece of several words is divided among them, here in equal parts.
    """
    shares_TI, shares_LJ = (share(ranges) for ranges in (source_T2, target_L2))
    means_LJ = shares_LJ / np.maximum(shares_LJ.sum(0), np.finfo(np.float32).tiny)
    return largest_weights(torch.from_numpy(means_LJ.T @ weights_LT @ shares_TI))


def share(ranges_P2: np.ndarray) -> np.ndarray:
    """The share of each piece in each word that it touches, float32 (pieces, words)."""
    touched_PW = membership(ranges_P2, int(ranges_P2.max(initial=0))).astype(np.float32)
    shares_PW: np.ndarray = touched_PW / np.maximum(touched_PW.sum(1, keepdims=True), 1)
    return shares_PW
