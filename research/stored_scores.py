"""Scores of stored outputs: those of our runs with the statistics of each sentence, and those of other toolkits.

Results keep scores only. The statistics are computed from the outputs and the corpora when a table needs them, and
cached on this machine by their content.
"""

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import sacrebleu

from interlinear.cli.console import say
from interlinear.cli.evaluation import test_sets
from interlinear.cli.evaluation.scoring import computable_metrics, select_metrics
from interlinear.cli.evaluation.test_sets import TestSet
from interlinear.cli.options import TestSetSource
from interlinear.errors import DataError
from interlinear.metrics import catalogue
from interlinear.metrics.metric import Metric, ReferenceSet, Statistics, SystemOutputs, check_line_counts
from interlinear.registry.cache_folder import cache_folder
from research.outputs import OutputKey, archive_file, outputs_sha256, read_outputs
from research.papers import PaperTables
from research.records import (
    Result,
    RunKey,
    ScaleName,
    ScoredRun,
    ScoredTest,
    TestResult,
    format_statistics,
    parse_statistics,
)
from research.scoring import joined_from, unedited_scores


@dataclass(frozen=True)
class StoredOutputs:
    """The stored outputs of a paper, and the corpora to score them by."""

    archive: Path
    lines: Mapping[OutputKey, Sequence[str]]
    data_root: Path | None

    @classmethod
    def of(cls, folder: Path, paper: str, data_root: Path | None) -> "StoredOutputs":
        """Read the archive of a paper. `folder`: of results."""
        return cls(archive_file(folder, paper), read_outputs(folder, paper), data_root)

    def our_run(self, result: Result, table: PaperTables) -> ScoredRun:
        """A kept run with the statistics of its scores, and with scores that its group names and the result lacks.

        Raises DataError for outputs or corpora that are not those that were scored.
        """
        group, tests = table.groups.get(result.place.group), {}
        for test, kept in result.tests.items():
            if kept.outputs_sha256 is None:
                tests[test] = ScoredTest(kept, kept_statistics(kept))
                continue
            key = str(result.place), test
            if key not in self.lines or outputs_sha256(self.lines[key]) != kept.outputs_sha256:
                raise DataError(
                    self._where(key),
                    "these are not the outputs that were scored: their SHA-256 is not the one in the run's result",
                    "restore the file, or remove the result, and the run is trained again",
                )
            names = group.tests.get(test) if group else None
            tests[test] = self._score(key, kept, names, result.training.data)
        return ScoredRun.of(result, tests)

    def toolkit_runs(self, paper: str, table: PaperTables, scale: ScaleName) -> list[ScoredRun]:
        """The runs of other toolkits' systems of which outputs are stored, scored by the code that scores ours."""
        runs = []
        for name, group in table.groups.items():
            for system, about in group.toolkit_systems.items():
                prefix = f"{paper}.{name}.{system}."
                ends = {run.removeprefix(prefix) for run, test in self.lines if run.startswith(prefix)}
                for seed in sorted(int(end) for end in ends if end.isdecimal()):
                    place = RunKey(table=paper, group=name, system=system, scale=scale, seed=seed)
                    tests = {
                        test: self._score(key, None, names, group.data_at(scale))
                        for test, names in group.tests.items()
                        if (key := (place.without_scale, test)) in self.lines
                    }
                    version = f"{about.toolkit} {about.version}"
                    runs.append(ScoredRun(place, version, about.minutes, about.parameters, tests))
        return [run for run in runs if run.tests]

    def _score(self, key: OutputKey, kept: TestResult | None, names: str | None, data: str) -> ScoredTest:
        """The result of stored outputs on a split: the kept one with the scores `names` that it lacks, or a new one."""
        (run, split), lines = key, self.lines[key]
        test_set = read_test_set(data, split, self.data_root)
        check_line_counts(self._where(key), len(lines), test_set.name, test_set.rows)
        outputs, answers = SystemOutputs.from_lines(lines), test_set.answers()
        result = kept or TestResult(
            reading=test_set.reading(None, None), scores={}, joined_from=joined_from(data, split, self.data_root)
        )
        known = {*result.scores, *result.left_out, *catalogue.ALIGNMENT}
        named = select_metrics(names, None, result.reading) if names else ()
        asked = [metric for metric in named if metric.name not in known]
        further, left_out = computable_metrics(asked, answers) if asked else ([], {})
        if further:
            say(f"{run}, {split}: computing {', '.join(metric.name for metric in further)} of the stored outputs")
        statistics = kept_statistics(result)
        of_outputs = [name for name in result.scores if name not in statistics]
        for metric in catalogue.select_metrics(of_outputs, result.reading):
            own = sentence_statistics(metric, outputs, answers, test_set)
            total, score = metric.report(own, "").score, result.scores[metric.name].score
            if not np.isclose(total, score):
                raise DataError(
                    self._where(key),
                    f"{metric.name} on {test_set.name} is {total:.2f}, and was {score:.2f}: the corpus is another one",
                    "name the folder of the right one by INTERLINEAR_DATA",
                )
            statistics[metric.name] = rounded(own)
        scores = dict(result.scores)
        for metric in further:
            own = sentence_statistics(metric, outputs, answers, test_set)
            scores[metric.name] = metric.report(own, metric.signature(outputs, answers))
            statistics[metric.name] = rounded(own)
        update = {
            "scores": scores,
            "left_out": result.left_out | left_out,
            "unedited": result.unedited | unedited_scores(test_set, further),
        }
        return ScoredTest(result.model_copy(update=update), statistics, source_lengths(data, split, self.data_root))

    def _where(self, key: OutputKey) -> str:
        return f"{self.archive}, {' on '.join(key)}"


def kept_statistics(result: TestResult) -> dict[str, Statistics]:
    """The statistics of each sentence that the result of a test set has itself, by score, (N, S)."""
    return {name: parse_statistics(lines) for name, lines in result.statistics.items()}


@cache
def read_test_set(data: str, split: str, data_root: Path | None) -> TestSet:
    """A split with its references. Raises DataError where its files are not there."""
    return test_sets.read_test_set(TestSetSource(data, split, None, [], data_root), [], aligned=False)


@cache
def source_lengths(data: str, split: str, data_root: Path | None) -> list[int]:
    """The number of words of every source of a split."""
    test_set = read_test_set(data, split, data_root)
    return [len(test_set.word_spans(text)) for text in test_set.sources]


def sentence_statistics(metric: Metric, outputs: SystemOutputs, answers: ReferenceSet, test_set: TestSet) -> Statistics:
    """The statistics of each sentence, (N, S): cached by the outputs, the test set, the metric's settings and code."""
    parts = (metrics_code(), metric.name, metric.signature(outputs, answers), test_set.sha256, *outputs.hypotheses)
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()
    path = cache_folder("statistics") / f"{key}.npy"
    if path.is_file():
        cached: Statistics = np.load(path)
        return cached
    statistics = metric.statistics(outputs, answers)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{key}.{os.getpid()}.npy")  # another process may compute the same
    np.save(draft, statistics)
    draft.replace(path)
    return statistics


def rounded(statistics: Statistics) -> Statistics:
    """The statistics in the digits of those that results keep, so that a tie is one on every machine."""
    return parse_statistics(format_statistics(statistics))


@cache
def metrics_code() -> str:
    """The SHA-256 (hex) of the code of the metrics, with the version of the package that some of them use."""
    files = sorted(Path(catalogue.__file__).parent.glob("*.*"))
    content = b"".join(path.read_bytes() for path in files if path.is_file())
    return hashlib.sha256(content + sacrebleu.__version__.encode()).hexdigest()
