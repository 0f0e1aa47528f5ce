"""Figures of a training for its MLflow run: learning curves, and attention on a dev sentence."""

from collections.abc import Iterator
from pathlib import Path

from interlinear.bundle import Bundle
from interlinear.figures.curves import Curve, Panel, learning_curves
from interlinear.figures.grid import Languages
from interlinear.figures.matrices import attention_matrix, gate_strip
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult
from interlinear.models.model import Model
from interlinear.registry.curves import DEV_BLEU, DEV_PERPLEXITY, Curves, curve_title, ordered_values
from training.data.prepare.prepared import PreparedData
from training.events import TrainingJob

FIGURE_WORDS = range(5, 13)  # lengths in words of the dev sentence that is drawn
FIGURE_CURVES = (DEV_BLEU, DEV_PERPLEXITY)


def learning_curve_figure(curves: Curves, run: str, folder: Path) -> Iterator[Path]:
    """Learning curves; none where this process ran no epoch, for example after resuming behind the last one."""
    drawn = [(key, points) for key in FIGURE_CURVES if (points := curves.get(key))]
    panels = [Panel(curve_title(key), (Curve(run, (ordered_values(points),)),)) for key, points in drawn]
    if panels:
        yield learning_curves(panels, folder / "learning_curve.png")


def attention_figures(bundle: Bundle[Model], job: TrainingJob, folder: Path) -> Iterator[Path]:
    """One figure for each kind of attention weights, and one for contextual gates; none where no dev sentence can
    be translated."""
    dev, card = job.dev, bundle.card
    (first, *_) = dev.sources.values()
    row = next((row for row, text in enumerate(first) if len(text.split()) in FIGURE_WORDS), 0)
    split = PreparedData.load(job.prepared).split("dev")
    request = dev.request(row, card.search, split, card.model, explain=True)
    (answer,) = SequenceGenerator(bundle, width=request.options.beam).generate([request])
    if not isinstance(answer, GenerationResult) or not answer.explanation or not answer.explanation.target:
        return
    for kind in answer.explanation.matrices:
        yield attention_matrix(answer.explanation, folder / f"{kind}.png", kind, Languages.of(card))
    if answer.explanation.gate is not None:
        yield gate_strip(answer.explanation, folder / "gate.png", card.languages.get("target"))
