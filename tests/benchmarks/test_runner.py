"""The runner that benchmarks share: turns, medians, ratios, what is saved, and --quick."""

import argparse
import itertools
import json
import statistics

import pytest

from benchmarks import runner
from benchmarks.runner import Benchmark, Column, Contestant, Options, Results, interleaved, run

pytestmark = pytest.mark.slow

BENCHMARK = Benchmark(
    "sorting",
    "Sorting",
    {"rate": Column("lists/s"), "failed": Column("failed", ".0f", sum), "how": Column("how")},
    ("Lists.",),
    ("callers",),
    "rate",
    {"x slow": "slow", "x before": {"fast": "slow"}},
)


def contestant(name, rates, varies=True):
    turns = itertools.cycle(rates)
    return Contestant(
        name, lambda: {(callers,): {"rate": next(turns), "failed": 1.0, "how": name} for callers in ("1", "8")}, varies
    )


def test_each_round_starts_with_another_contestant_and_what_does_not_vary_is_measured_once():
    one, two, fixed = contestant("a", [1.0]), contestant("b", [1.0]), contestant("c", [1.0], varies=False)
    assert interleaved([one, two, fixed], 3) == [one, two, fixed, two, one, one, two]


def test_the_table_has_medians_and_ratios_to_the_baseline_with_the_same_labels(capsys):
    contestants = [contestant("slow", [10.0, 1.0, 30.0, 3.0, 20.0, 2.0]), contestant("fast", [40.0, 8.0])]
    run(BENCHMARK, contestants, argparse.Namespace(rounds=3, quick=True, save=False))
    table = [
        [cell.strip() for cell in line.split("|")[1:-2]]  # without the other programs' share
        for line in capsys.readouterr().out.splitlines()
        if line.startswith("|")
    ]
    assert table[0] == ["callers", "", "lists/s", "failed", "how", "x slow", "x before", "each round"]
    assert table[2:] == [
        ["1", "slow", "20.0", "3", "slow", "1.00", "", "10.0 / 30.0 / 20.0"],
        ["1", "fast", "40.0", "3", "fast", "2.00", "2.00", "40.0 / 40.0 / 40.0"],
        ["8", "slow", "2.00", "3", "slow", "1.00", "", "1.00 / 3.00 / 2.00"],
        ["8", "fast", "8.00", "3", "fast", "4.00", "4.00", "8.00 / 8.00 / 8.00"],
    ]


def test_a_baseline_with_one_row_is_that_of_all_rows():
    results = Results()
    results.add("search", {(): {"rate": 4.0}}, 0.0)
    results.add("service", {("8",): {"rate": 2.0}, ("ready",): {"seconds": 9.0}}, 0.0)
    assert results.ratio("service", ("8",), "rate", "search") == "0.50"
    assert results.ratio("service", ("ready",), "rate", "search") == "", "it has no rate"


def test_a_result_is_saved_with_every_round_its_date_commit_and_machine(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(runner, "RESULTS", tmp_path)
    monkeypatch.setattr(runner, "ROOT", tmp_path)
    monkeypatch.setattr("sys.argv", [str(runner.__file__), "--peers", "/home/somebody/peers"])
    results = run(BENCHMARK, [contestant("slow", [10.0, 1.0])], argparse.Namespace(rounds=2, quick=True, save=True))
    page, content = (tmp_path / "sorting.md").read_text(), json.loads((tmp_path / "sorting.json").read_text())
    assert page == capsys.readouterr().out.removesuffix("\n")
    assert "python -m benchmarks.runner --peers FOLDER" in page and "somebody" not in page
    assert content["rounds"][0][2] == [dict(one) for one in results.rows["slow", ("1",)]]
    assert content["date"] and content["commit"] and content["machine"]["processor"] is not None


def test_quick_is_one_round_of_small_sizes_unless_they_are_given():
    options = Options("Sorts.", rounds=5)
    options.size("--list-length", 1000, 10)
    asked = options.parse([])
    assert (asked.rounds, asked.list_length, asked.quick) == (5, 1000, False)
    assert (options.parse(["--quick"]).rounds, options.parse(["--quick"]).list_length) == (1, 10)
    assert options.parse(["--quick", "--list-length", "20"]).list_length == 20


def test_a_figure_of_rounds_is_the_columns_and_words_are_the_first_rounds():
    assert Column("", ".1f", statistics.mean).cell([1.0, 2.0, 6.0]) == "3.0"
    assert Column("").cell([1.0, 2.0, 6000.0]) == "2.00" and Column("").cell([2684.4]) == "2,684"
    assert Column("").cell(["5.1 M", "5.1 M"]) == "5.1 M" and Column("").cell([]) == ""
