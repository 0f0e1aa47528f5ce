"""Adaptation of a trained model to the sentence pairs that it is to align, without gold alignments.

The model is trained for a few passes on the pairs themselves, with its attention guided by the links of the HMM aligner
that is learned from the same pairs (Garg et al. 2019 guide by GIZA++).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from interlinear.batch import Batch, collate
from interlinear.models.model import Model
from training.data.guide.piece_links import RowArrays, guide_matrix
from training.loop.process_group import SingleProcess
from training.loop.training_step import Objective, ResultCopy, TrainingStep
from training.recipe import GuideSettings, TrainingSettings

PASSES = 10
MIN_UPDATES = 300  # few pairs get more passes
MAX_UPDATES = 2000  # many pairs get fewer passes, at least one
BATCH_TOKENS = 1000
LEARNING_RATE = 0.001
WARMUP = 20
GUIDE_WEIGHT = 1.0  # larger than in training: the links belong to these very pairs

Progress = Callable[[int, int], None]  # receives the number of updates that are done, and of all


@dataclass(frozen=True)
class AdaptationPair:
    """The ids of a pair, without end symbols, and the links (target piece, source piece) that guide it, (N, 2)."""

    source: Sequence[int]
    target: Sequence[int]
    links: np.ndarray


def adapt(model: Model, pairs: Sequence[AdaptationPair], seed: int = 1, progress: Progress | None = None) -> None:
    """Train the model, which has one text source, on the pairs; it is changed in place and left in evaluation mode.

    Equal pairs, seed and number of threads give equal weights. Raises TrainingError if memory does not suffice for one
    pair.
    """
    settings = TrainingSettings(
        learning_rate=LEARNING_RATE,
        batch_tokens=BATCH_TOKENS,
        label_smoothing=0.1,
        guide=GuideSettings.model_validate({"from": "hmm", "weight": GUIDE_WEIGHT}),
        seed=seed,
    )
    step = TrainingStep(settings, Objective(settings), model.train(), SingleProcess(), next(model.parameters()).device)
    batches = list(batches_of(pairs, model.config.first_text))
    passes = max(1, min(max(PASSES, MIN_UPDATES // len(batches)), MAX_UPDATES // len(batches)))
    updates = passes * len(batches)
    draw = np.random.default_rng(seed)
    order = np.concatenate([draw.permutation(len(batches)) for _ in range(passes)])
    for update, number in enumerate(order):
        batch, tokens = batches[number]
        rate = LEARNING_RATE * min(1.0, (update + 1) / WARMUP, (updates - update) / (updates / 2))
        ResultCopy(step.run([batch], tokens, rate, update)).read()
        if progress:
            progress(update + 1, updates)
    model.eval()


def batches_of(pairs: Sequence[AdaptationPair], source: str) -> Iterator[tuple[Batch, int]]:
    """Batches of pairs of similar length, of about BATCH_TOKENS target tokens, each with its number of these."""
    order = sorted(range(len(pairs)), key=lambda n: (len(pairs[n].target), len(pairs[n].source), n))
    rows: list[AdaptationPair] = []
    for n in order:
        rows.append(pairs[n])
        if len(rows) * (len(pairs[n].target) + 1) >= BATCH_TOKENS or n == order[-1]:
            yield guided_batch(rows, source), sum(len(row.target) + 1 for row in rows)
            rows = []


def guided_batch(rows: Sequence[AdaptationPair], source: str) -> Batch:
    """The padded tensors of some pairs, with their guide."""
    batch = collate({source: [row.source for row in rows]}, [row.target for row in rows])
    assert batch.target_BL is not None
    links = RowArrays.of(row.links for row in rows)
    widths = batch.target_BL.shape[1], batch.text(source).ids_BT.shape[1]
    return replace(batch, guide_BLT=torch.from_numpy(guide_matrix(links, np.arange(len(rows)), *widths)))
