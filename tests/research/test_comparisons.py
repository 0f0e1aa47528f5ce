"""Tables from results: scores pooled over test sets, systems with fewer seeds or test sets, image awareness."""

from pathlib import Path

import pytest

from interlinear.metrics.catalogue import select_metrics
from interlinear.metrics.metric import Preprocessing, ReferenceSet, SystemOutputs
from research.comparisons import ALL_TESTS, build_awareness_tables, build_results_tables, runs_by_system
from research.figures import gated_results
from research.pages import Page, format_minutes, update_summary
from research.papers import PaperTables, load_paper
from research.records import (
    DevPoint,
    Result,
    RunKey,
    ScoredRun,
    ScoredTest,
    ShuffledImages,
    TrainingSpec,
    format_statistics,
    read_results,
    result_file,
    write_record,
)  # fmt: skip
from research.records import TestResult as SplitResult

READING = Preprocessing()
(EXACT,) = select_metrics(["exact-match"], READING)
REFERENCES = ["a b"] * 40
KEPT = Path(__file__).parents[2] / "research/results"

pytestmark = pytest.mark.slow


def scored(right: int, lines: int = 40, **keys: object) -> ScoredTest:
    """The result of a test set of `lines` lines, of which the first `right` are translated exactly."""
    outputs = SystemOutputs.from_lines(["a b"] * right + ["a c"] * (lines - right))
    answers = ReferenceSet.from_lines([REFERENCES[:lines]])
    statistics = EXACT.statistics(outputs, answers)
    scores = {"exact-match": EXACT.report(statistics, EXACT.signature(outputs, answers))}
    return ScoredTest(SplitResult(reading=READING, scores=scores, **keys), {"exact-match": statistics}, [2] * lines)


def run(system: str, seed: int, epochs: int = 0, seconds: float = 600, **tests: ScoredTest) -> ScoredRun:
    result = Result(
        place=RunKey(table="paper", group="group", system=system, scale="small", seed=seed),
        training=TrainingSpec(recipe=system, data="data", settings={}),
        commit="0123456789abcdef",
        machine="a machine",
        date="2026-01-01",
        seconds=seconds,
        parameters=1000,
        weights_sha256="",
        curve=[DevPoint(epoch=epoch, perplexity=9, bleu=1) for epoch in range(1, epochs + 1)],
        tests={name: test.result for name, test in tests.items()},
    )
    return ScoredRun.of(result, tests)


def paper(*tests: str, shuffled: tuple[str, ...] = (), **keys: object) -> PaperTables:
    """Tables of one group. `keys`: others of its keys, or other values."""
    group = {
        "about": "two systems",
        "data": "data",
        "tests": dict.fromkeys(tests, "exact-match"),
        "published": "gain",
        "systems": {"base": 0.0, "better": None},
        "shuffle_images": list(shuffled),
        **keys,
    }
    return PaperTables.model_validate({"about": "A paper", "groups": {"group": group}})


def page(table: PaperTables, results: list[ScoredRun]) -> str:
    tables = build_results_tables(table, results, "small")
    awareness = build_awareness_tables(table, results, "small")
    return Page(table, "small", results, tables, awareness, "python -m research reproduce paper", 3.0).markdown()


def test_all_test_sets_together_are_compared_over_all_sentences_and_seeds():
    results = [
        run("base", 1, test=scored(20), test_2017=scored(5, lines=10)),
        run("base", 2, test=scored(20), test_2017=scored(5, lines=10)),
        run("better", 1, test=scored(22), test_2017=scored(7, lines=10)),
        run("better", 2, test=scored(22), test_2017=scored(7, lines=10)),
    ]
    one, other, pooled = build_results_tables(paper("test", "test_2017"), results, "small")
    assert (one.test, other.test, pooled.test) == ("test", "test_2017", ALL_TESTS)
    assert pooled.pooled == ("test", "test_2017")
    base, better = pooled.rows
    assert base.ours == pytest.approx(100 * 25 / 50) and better.gain == pytest.approx(100 * (29 - 25) / 50)
    assert better.p_value is not None and one.rows[1].p_value is not None and other.rows[1].p_value is not None
    assert better.p_value < min(one.rows[1].p_value, other.rows[1].p_value)  # more sentences decide better
    assert "### data, all test sets (test, test_2017): exact-match" in page(paper("test", "test_2017"), results)


def test_the_gain_of_each_seed_is_that_over_the_same_seed_of_the_baseline():
    """So that a reader sees whether other trainings had the gain, which p over sentences does not say."""
    results = [run("base", 1, test=scored(20)), run("base", 2, test=scored(30)), run("base", 3, test=scored(10))]
    results += [run("better", 3, test=scored(20)), run("better", 2, test=scored(29)), run("better", 4, test=scored(40))]
    (table,) = build_results_tables(paper("test"), results, "small")
    base, better = table.rows
    assert (base.gain, base.seed_gains) == (None, ())
    gains = dict(zip((seed for seed in better.seeds if seed != 4), better.seed_gains, strict=True))
    assert gains == pytest.approx({2: -2.5, 3: 25})
    assert f"| {better.gain:+.2f} ({', '.join(f'{gain:+.2f}' for gain in better.seed_gains)}) |" in page(
        paper("test"), results
    )


def test_joined_lines_are_not_counted_twice():
    tests = {"test": scored(20), "test_joined": scored(5, lines=10, joined_from="test")}
    results = [run("base", 1, **tests), run("better", 1, **tests)]
    tables = build_results_tables(paper("test", "test_joined"), results, "small")
    assert [table.test for table in tables] == ["test", "test_joined"]


def test_a_system_with_fewer_seeds_or_test_sets_is_named():
    results = [run("base", seed, test=scored(20), test_2017=scored(5)) for seed in (1, 2)]
    results.append(run("better", 1, test=scored(30)))
    table = paper("test", "test_2017")
    text = page(table, results)
    assert "**Fewer seeds than 2:** better 1." in text
    assert "**Not scored on `test_2017`**, all or some seeds: better." in text
    assert [len(one.rows) for one in build_results_tables(table, results, "small")] == [2, 1]
    one_set = [run(name, 1, test=scored(20)) for name in ("base", "better")]
    assert "**Not scored on `test_2017`**, all or some seeds: base, better." in page(table, one_set)
    equal = page(paper("test"), one_set)
    assert "Fewer seeds" not in equal and "Not scored" not in equal


def test_awareness_is_the_gain_of_the_right_images_over_all_seeds():
    def shuffled(right: int) -> ShuffledImages:
        wrong = scored(right)
        score = wrong.result.scores["exact-match"].score
        return ShuffledImages(
            seed=1,
            lines=40,
            scores={"exact-match": score},
            awareness={"exact-match": 75 - score},
            p_values={},
            statistics={"exact-match": format_statistics(wrong.statistics["exact-match"])},
        )

    results = [
        run("base", 1, test=scored(20)),  # reads no images
        run("better", 1, test=scored(30, shuffled=shuffled(10))),
        run("better", 2, test=scored(30, shuffled=shuffled(12))),
    ]
    table = paper("test", shuffled=("test",))
    (awareness,) = build_awareness_tables(table, results, "small")
    (row,) = awareness.rows
    assert (row.system, row.seeds, row.right) == ("better", (1, 2), 75)
    assert row.shuffled == pytest.approx(27.5) and row.awareness == pytest.approx(47.5) and row.p_value < 0.001
    text = page(table, results)
    assert "### data, test: exact-match with the images of other sentences" in text
    assert "| better | 2 | 75.00 | 27.50 | +47.50 | 0.0001 * |" in text


def test_the_page_says_how_long_each_system_was_trained():
    """The times of machines of other speeds are not averaged."""
    results = [
        run("base", 1, 7, seconds=156, test=scored(20)),
        run("base", 2, 9, seconds=2970, test=scored(20)),
        run("better", 1, 6, test=scored(20)),
    ]
    text = page(paper("test"), results)
    rows = {line.split(" | ")[0]: line.split(" | ")[-3:-1] for line in text.splitlines() if line.startswith("| b")}
    assert rows == {"| base": ["7 - 9", "3 - 50"], "| better": ["6", "10"]}
    said = "From the kept results this takes less than a minute; the trainings took 63 minutes together (3 runs)."
    assert said in text
    assert [format_minutes(one) for one in (0.2, 1.2, 150)] == ["less than a minute", "2 minutes", "2 h 30 min"]


def test_the_gates_of_a_group_are_those_of_one_system_that_it_trains():
    """Minimum risk's table has the first stage beside the second: both have gates, and they are not averaged."""
    group = load_paper("word-attention").groups["minimum-risk"]
    kept = [ScoredRun.of(result, {}) for result in read_results(KEPT, "word-attention")]
    runs = runs_by_system("minimum-risk", group, kept, "small")
    assert [run.place.system for own in runs.values() for run in own if run.result and run.result.gates] == [
        *group.systems
    ]
    assert [result.place.system for result in gated_results(group, runs)] == ["contextual_gates-mrt"]


def test_seeds_whose_weights_are_not_known_are_no_copies_of_one_another(tmp_path):
    for seed in (1, 2):
        one = run("base", seed).result
        assert one
        write_record(result_file(tmp_path, one.place), one)
    assert [result.place.seed for result in read_results(tmp_path, "paper")] == [1, 2]


PAGE = """# Results

Text before.

<!-- table paper group test exact-match -->
an old table
<!-- end of table -->

<!-- table other group test exact-match -->
of another paper
<!-- end of table -->

<!-- table paper group test chrf -->
without runs
<!-- end of table -->
"""


def test_the_tables_of_a_page_of_prose_are_written_and_nothing_else_changes(tmp_path: Path, capsys):
    """A table without runs stays, with a warning: a long training does not end for it."""
    results = [run("base", seed, test=scored(right)) for seed, right in ((1, 18), (2, 20))]
    results += [run("better", seed, test=scored(right)) for seed, right in ((1, 20), (2, 21))]
    results.append(run("best", 1, test=scored(40)))
    systems = {"base": 27.83, "better": 28.49, "best": None}
    another = {
        "name": "another",
        "citation": "a citation",
        "settings": "none",
        "scores": {"test": {"exact-match": 39.5}},
    }
    table = paper("test", published="exact-match", systems=systems, also_published=[another])
    (built,) = build_results_tables(table, results, "small")
    file = tmp_path / "results.md"
    file.write_text(PAGE)
    update_summary(file, "paper", [built])
    expected = f"""| system | ours | gain | p | the paper | its gain |
|---|---|---|---|---|---|
| `base` | 47.50 ± 3.54 (2 seeds) |  |  | 27.83 |  |
| `better` | 51.25 ± 1.77 (2 seeds) | +3.75 (+5.00, +2.50) | {built.rows[1].p_value:.4f} | 28.49 | +0.66 |
| `best` | 100.00 (1 seed) | +52.50 | < 0.0001 |  |  |
| *another* | | | | 39.50 | |
"""
    assert file.read_text() == PAGE.replace("an old table\n", expected)
    assert "no run of paper has the table 'group test chrf': it stays as it is" in capsys.readouterr().err
    update_summary(file, "paper", [built])
    assert file.read_text() == PAGE.replace("an old table\n", expected)
