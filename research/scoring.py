"""Scores a model, or a file with outputs, on one split for a paper's tables and for MLflow."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from interlinear.evaluation.evaluation_options import SHUFFLE_SEED
from interlinear.evaluation.scoring import (
    System,
    computable_metrics,
    image_awareness,
    needs_alignments,
    needs_outputs,
    select_metrics,
)
from interlinear.evaluation.test_sets import UNEDITED, TestSet, TestSetSource
from seq2seq.source_names import MT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.evaluations import Evaluation
    from seq2seq.metrics.metric import Metric, Statistics, SystemOutputs
    from training.reproduce.results import ShuffledImages, TestResult


@dataclass(frozen=True)
class SplitScorer:
    """A split of a data set and its scores, as a table's group names them.

    `shuffle_images`: a system that reads images is scored with those of other lines too.
    """

    data: str
    split: str
    metrics: str
    data_root: Path | None
    shuffle_images: bool = False

    def score(self, system: System) -> "ScoredSplit":
        """Search and score. Raises UsageError, DataError."""
        from training.data.dataset import open_dataset
        from training.reproduce.results import TestResult, format_statistics

        aligned = needs_alignments(self.metrics, None) and system.generation is not None
        test_set = TestSetSource(self.data, self.split, None, [], self.data_root).read([system], aligned)
        answers, reading = test_set.answers(), test_set.reading(None, None)
        selected, left_out = computable_metrics(select_metrics(self.metrics, test_set.task, reading), answers)
        search = needs_outputs(selected)
        outputs = system.outputs(test_set, label=f"{self.data}, {self.split}", search=search)
        statistics = {metric: metric.statistics(outputs, answers) for metric in selected}
        joined = open_dataset(self.data, self.data_root).joined.get(self.split)
        result = TestResult(
            reading=reading,
            scores={m.name: m.report(each, m.signature(outputs, answers)) for m, each in statistics.items()},
            left_out=left_out,
            unedited=unedited_scores(test_set, selected),
            lengths=[len(test_set.word_spans(text)) for text in test_set.sources],
            statistics={metric.name: format_statistics(each) for metric, each in statistics.items()},
            joined_from=joined.split if joined else None,
            shuffled=self.score_shuffled(system, test_set, outputs, statistics) if test_set.pictures else None,
        )
        return ScoredSplit(self.split, test_set, result, outputs.hypotheses if search else ())

    def score_shuffled(
        self, system: System, test_set: TestSet, right: "SystemOutputs", statistics: "Mapping[Metric, Statistics]"
    ) -> "ShuffledImages | None":
        """The scores with the images of other lines; None if they are not asked for."""
        from training.reproduce.results import ShuffledImages, format_statistics

        if not self.shuffle_images:
            return None
        answers = test_set.answers()
        shuffled_set = test_set.shuffle_images(SHUFFLE_SEED)
        shuffled = system.outputs(shuffled_set, label=f"{self.data}, {self.split}, images shuffled")
        awareness = {metric.name: image_awareness(metric, right, shuffled, answers) for metric in statistics}
        return ShuffledImages(
            seed=SHUFFLE_SEED,
            lines=test_set.lines_with_image,
            scores={name: one.score for name, one in awareness.items()},
            awareness={name: one.awareness for name, one in awareness.items()},
            p_values={name: one.p_values for name, one in awareness.items()},
            statistics={metric.name: format_statistics(metric.statistics(shuffled, answers)) for metric in statistics},
        )


@dataclass(frozen=True)
class ScoredSplit:
    """The result of a split, and the outputs, which are empty if only alignments were scored."""

    split: str
    test_set: TestSet
    result: "TestResult"
    outputs: tuple[str, ...]

    def evaluation(self) -> "Evaluation":
        """The record for MLflow."""
        from registry.evaluations import Evaluation

        result = self.result
        values = {name: score.score for name, score in result.scores.items()}
        values |= {f"{UNEDITED}/{name}": score for name, score in result.unedited.items()}
        if result.shuffled:
            values |= {f"shuffled/{name}": score for name, score in result.shuffled.scores.items()}
            values |= {f"awareness/{name}": score for name, score in result.shuffled.awareness.items()}
        signatures = {name: score.signature for name, score in result.scores.items()}
        test_set = self.test_set
        return Evaluation(test_set.name, self.split, test_set.sha256, test_set.rows, values, signatures)


def unedited_scores(test_set: TestSet, metrics: "list[Metric]") -> dict[str, float]:
    """The scores of the unedited machine translations, the baseline of post-editing; empty if there are none."""
    if MT not in test_set.texts:
        return {}
    unedited, answers = System(UNEDITED, None).outputs(test_set), test_set.answers()
    return {metric.name: metric.score(unedited, answers).score for metric in metrics}
