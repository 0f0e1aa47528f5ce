"""The training objective: negative log-likelihood of the target words, or expected risk per sentence."""

from dataclasses import dataclass

from seq2seq.batch import Batch
from seq2seq.losses.cross_entropy import Loss
from seq2seq.minimum_risk.minimum_risk import RiskOptions, minimum_risk_loss
from seq2seq.model.model import Model
from training.loop.checkpoints.training_state import TrainingProgress
from training.recipe import TrainingSettings


@dataclass
class Totals:
    """Sums over some updates; learning rate and gradient norm of the newest of them."""

    updates: int = 0
    tokens: int = 0
    sentences: int = 0
    objective: float = 0.0
    nats: float = 0.0
    guide_nats: float = 0.0
    linked_words: int = 0
    learning_rate: float = 0.0
    gradient_norm: float = 0.0


class Objective:
    """The loss of a batch and its normalizer."""

    def __init__(self, settings: TrainingSettings) -> None:
        self.smoothing = settings.label_smoothing
        self.risk = (settings.risk or RiskOptions()) if settings.objective == "risk" else None
        self.guide_weight = settings.guide.weight if settings.guide else 1.0
        self.by_sentences = self.risk is not None or settings.divide_by == "sentences"

    def loss(self, model: Model, batch: Batch) -> Loss:
        """The objective, summed over a batch."""
        if self.risk is None:
            return model.loss(batch, self.smoothing, self.guide_weight)
        return minimum_risk_loss(model, batch, self.risk, self.smoothing, self.guide_weight)

    def normalizer(self, tokens: int, sentences: int) -> int:
        """The divisor of an update's summed objective."""
        return sentences if self.by_sentences else tokens

    def mean(self, sums: TrainingProgress | Totals) -> float:
        """The reported mean: loss per target word, or risk per sentence."""
        return sums.objective / max(1, sums.tokens if self.risk is None else sums.sentences)


def mean_guide(sums: TrainingProgress | Totals) -> float | None:
    """The mean loss of guided attention per linked target word, in nats; None where no attention was guided."""
    return sums.guide_nats / sums.linked_words if sums.linked_words else None
