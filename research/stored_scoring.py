"""Scores of stored outputs: those that a kept run lacks, and those of systems of other toolkits."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from interlinear.console import say
from interlinear.reproduction.run_training import ReproduceConfig
from interlinear.reproduction.split_scoring import SplitScorer

if TYPE_CHECKING:
    from pathlib import Path

    from training.reproduce.papers import PaperTables, SystemGroup
    from training.reproduce.results import Result, RunKey, ScaleName, TestResult, ToolkitResult


def add_missing_scores(results: "Sequence[Result]", table: "PaperTables", config: ReproduceConfig) -> "list[Result]":
    """The results, with the scores that their groups name and that were not computed when they were made.

    They are computed from the stored outputs and written to the result files; a run without stored outputs is
    unchanged. Raises DataError for outputs that are not those of the result; then no file has changed.
    """
    from training.reproduce.results import write_result

    completed = []
    for result in results:
        group = table.groups.get(result.place.group)
        tests = complete_tests(result, group.tests, config) if group else result.tests
        completed.append(result.model_copy(update={"tests": tests}))
    for before, after in zip(results, completed, strict=True):
        if after.tests != before.tests:
            write_result(config.output, after)
    return completed


def complete_tests(result: "Result", named: "Mapping[str, str]", config: ReproduceConfig) -> "dict[str, TestResult]":
    """The results of a run by test set, with the scores that are named for each and can be computed from outputs."""
    from training.reproduce.stored_outputs import check_outputs, outputs_file

    tests = dict(result.tests)
    for test, test_result in result.tests.items():
        missing = missing_metrics(named.get(test), test_result)
        if not missing or test_result.outputs_sha256 is None:
            continue
        path = outputs_file(config.output, result.place, test)
        check_outputs(path, test_result.outputs_sha256)
        say(f"{result.place}, {test}: computing {', '.join(missing)} from the stored outputs")
        tests[test] = with_scores(test_result, score_file(path, result.training.data, test, missing, config))
    return tests


def missing_metrics(names: str | None, test_result: "TestResult") -> list[str]:
    """The scores of texts among `names` (as in a group's `tests`) that a result does not have."""
    from interlinear.evaluation.scoring import select_metrics
    from seq2seq.metrics.catalogue import ALIGNMENT

    known = {*test_result.scores, *test_result.left_out, *ALIGNMENT}
    return [metric.name for metric in select_metrics(names) if metric.name not in known] if names else []


def with_scores(test_result: "TestResult", further: "TestResult") -> "TestResult":
    """A result with the scores of another one on the same outputs."""
    merged = {
        key: getattr(test_result, key) | getattr(further, key)
        for key in ("scores", "left_out", "unedited", "statistics")
    }
    return test_result.model_copy(update=merged)


def score_file(path: "Path", data: str, split: str, metrics: Sequence[str], config: ReproduceConfig) -> "TestResult":
    """The scores of a file with outputs."""
    from interlinear.evaluation.scoring import System

    return SplitScorer(data, split, ",".join(metrics), config.data_root).score(System(str(path), None)).result


def toolkit_results(
    paper: str, table: "PaperTables", scale: "ScaleName", config: ReproduceConfig
) -> "list[ToolkitResult]":
    """The scores of the stored outputs of other toolkits' systems, by the code that scores ours.

    They are kept beside the outputs, and computed again if the outputs, the statement, or the scores of the table have
    changed. Raises DataError for outputs with a wrong number of lines.
    """
    results = []
    for name, group in table.groups.items():
        for system in group.toolkit_systems:
            results += [
                toolkit_result(run_key, group, config)
                for run_key in stored_runs(paper, name, system, scale, group, config)
            ]
    return results


def stored_runs(
    paper: str, name: str, system: str, scale: "ScaleName", group: "SystemGroup", config: ReproduceConfig
) -> "list[RunKey]":
    """The runs of another toolkit's system whose outputs for at least one test set are stored, by seed."""
    from training.reproduce.results import RunKey

    prefix = f"{paper}.{name}.{system}."
    seeds = set()
    for path in (config.output / "outputs").glob(f"{prefix}*.gz"):
        seed, _, test = path.name.removeprefix(prefix).removesuffix(".gz").partition(".")
        if seed.isdecimal() and test in group.tests:
            seeds.add(int(seed))
    return [RunKey(table=paper, group=name, system=system, scale=scale, seed=seed) for seed in sorted(seeds)]


def toolkit_result(run_key: "RunKey", group: "SystemGroup", config: ReproduceConfig) -> "ToolkitResult":
    """The kept scores of one run of another toolkit, or new ones."""
    from training.reproduce.results import ToolkitResult, read_toolkit_result, write_result
    from training.reproduce.stored_outputs import outputs_file, outputs_sha256

    kept, tests = read_toolkit_result(config.output, run_key), {}
    for test, metrics in group.tests.items():
        path = outputs_file(config.output, run_key.without_scale, test)
        if not path.exists():
            continue
        sha256 = outputs_sha256(path)
        own = kept.tests.get(test) if kept else None
        if own is None or own.outputs_sha256 != sha256 or missing_metrics(metrics, own):
            say(f"{run_key}, {test}: scoring {path}")
            own = score_file(path, group.data_at(run_key.scale), test, metrics.split(","), config)
        tests[test] = own.model_copy(update={"outputs_sha256": sha256})
    result = ToolkitResult(place=run_key, system=group.toolkit_systems[run_key.system], tests=tests)
    if result != kept:
        write_result(config.output, result)
    return result
