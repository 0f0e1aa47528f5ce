"""Tables and figures of `interlinear reproduce`: a page in Markdown, JSON and SVG files."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from interlinear.reproduction.run_training import ReproduceConfig
from interlinear.reproduction.stored_scoring import add_missing_scores, toolkit_results
from interlinear.reproduction.summary_page import update_page

if TYPE_CHECKING:
    from training.reproduce.papers import PaperTables
    from training.reproduce.results import Result, ScoredRun
    from training.reproduce.results_table import ResultsTable
    from training.reproduce.tunings import SystemTuning


def write_tables(
    paper: str,
    table: "PaperTables",
    scale: Literal["small", "paper"],
    config: ReproduceConfig,
    tunings: "Sequence[SystemTuning]" = (),
) -> Path:
    """Write the current tables: a page in Markdown, the same as JSON, and the figures of the page.

    `tunings`: of the systems that were tuned, for what they chose. Scores that kept runs lack are computed from their
    stored outputs first.
    """
    import json

    from training.reproduce.image_awareness import build_awareness_tables
    from training.reproduce.page import Page
    from training.reproduce.papers import paper_names
    from training.reproduce.results import read_results
    from training.reproduce.results_table import as_json, build_results_tables

    start = time.monotonic()
    kept = [result for result in read_results(config.output, paper) if result.place.scale == scale]
    own = add_missing_scores(kept, table, config)
    results: list[ScoredRun] = [*own, *toolkit_results(paper, table, scale, config)]
    tables = build_results_tables(table, results, scale)
    awareness = build_awareness_tables(table, results, scale)
    folder = config.output / (paper if scale == "small" else f"{paper}-{scale}")
    folder.mkdir(parents=True, exist_ok=True)
    paper_argument = paper if paper in paper_names() else f"{paper}.yaml"
    command = f"interlinear reproduce {paper_argument} --scale {scale}"
    figures = draw_figures(table, tables, results, folder)
    page = Page(table, scale, results, tables, awareness, command, time.monotonic() - start, figures, tunings)
    (folder / "table.md").write_text(page.markdown(), encoding="utf-8")
    if scale == "small":
        update_page(config.output.with_suffix(".md"), paper, tables)
    content = [*as_json(tables), *as_json(awareness)]
    (folder / "table.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return folder / "table.md"


def log_tables(folder: Path, paper: str, scale: str, config: ReproduceConfig) -> None:
    """Log the tables and figures to their MLflow run."""
    from registry.curves import find_or_create_group, log_files

    run_id = find_or_create_group(config.tracking, paper, f"{paper}.{scale}", {"table": paper, "scale": scale})
    log_files(config.tracking, run_id, folder)


def draw_figures(
    table: "PaperTables", results_tables: "Sequence[ResultsTable]", results: "Sequence[ScoredRun]", folder: Path
) -> "dict[ResultsTable | str | None, list[str]]":
    """Draw an overview of the tables; for each table its scores with intervals, and BLEU by sentence length; for each
    group its learning curves, and contextual gates. Tables of pooled test sets have no figure. Returns file names by
    subject: None for the overview, a table, or a group's name."""
    import numpy as np

    from seq2seq.figures.curves import Curve, Panel, learning_curves
    from seq2seq.figures.lengths import MIN_SENTENCES, score_by_length, score_curve_by_length
    from seq2seq.figures.systems import Comparison, SystemScore, system_comparison, system_comparisons
    from seq2seq.metrics.catalogue import select_metrics
    from training.reproduce.results import Result
    from training.reproduce.results_table import gated_runs, main_tables, published_label, runs_by_system

    results_tables = [results_table for results_table in results_tables if not results_table.pooled]
    scale = results[0].place.scale
    runs_of = {
        name: runs_by_system(name, table.groups[name], results, scale)
        for name in dict.fromkeys(results_table.group for results_table in results_tables)
    }
    comparisons = {
        results_table: Comparison(
            f"{results_table.group}: {results_table.metric.upper()}, {results_table.data}, {results_table.test}",
            tuple(
                SystemScore(row.system, row.ours, row.low, row.high, row.p_value, published_label(row))
                for row in results_table.rows
            ),
        )
        for results_table in results_tables
    }
    heading = f"{table.about.partition(',')[0]}, {scale} scale"
    system_comparisons(
        [comparisons[results_table] for results_table in main_tables(table, results_tables)],
        heading,
        folder / "table.svg",
    )
    pictures: dict[ResultsTable | str | None, list[str]] = {None: ["table.svg"]}
    for results_table in results_tables:
        drawn = []
        if len(results_table.rows) > 1:
            path = folder / f"{results_table.group}.{results_table.test}.{results_table.metric}.svg"
            drawn.append(system_comparison(comparisons[results_table].systems, comparisons[results_table].title, path))
        group_runs = runs_of[results_table.group]
        runs = {
            row.system: [run.tests[results_table.test] for run in group_runs[row.system] if run.place.seed in row.seeds]
            for row in results_table.rows
        }
        first = next(iter(runs.values()))[0]
        if results_table.metric == "bleu" and sum(length > 0 for length in first.lengths) >= MIN_SENTENCES:
            (bleu,) = select_metrics([results_table.metric], first.reading)
            lines = [  # statistics of several seeds are summed
                score_curve_by_length(
                    system,
                    first.lengths,
                    bleu,
                    np.sum([test_result.of(results_table.metric) for test_result in seeds], axis=0),
                )
                for system, seeds in runs.items()
            ]
            drawn.append(
                score_by_length(lines, "BLEU", folder / f"{results_table.group}.{results_table.test}.lengths.svg")
            )
        pictures[results_table] = [path.name for path in drawn]
    for group, group_runs in runs_of.items():
        trained = {name: [run for run in own if isinstance(run, Result)] for name, own in group_runs.items()}
        curves = [
            Curve(name, tuple(tuple(point.bleu for point in run.curve) for run in own))
            for name, own in trained.items()
            if own
        ]
        path = learning_curves([Panel("dev BLEU", tuple(curves))], folder / f"{group}.curves.svg")
        gated = gated_runs(table.groups[group], group_runs)
        pictures[group] = [path.name, *draw_gates(gated, folder / f"{group}.gates.svg")]
    return pictures


def draw_gates(results: "Sequence[Result]", path: Path) -> list[str]:
    """Draw the contextual gates of a system's runs, the mean of its seeds; returns the file's name."""
    from seq2seq.figures.gates import gate_figure
    from training.reproduce.gates import mean_analysis

    if not results:
        return []
    gates = mean_analysis([result.gates for result in results if result.gates is not None])
    by_epoch = [[point.gate for point in result.curve if point.gate is not None] for result in results]
    by_class = {name: one.mean for name, one in gates.by_class.items()}
    return [gate_figure(by_class, [curve for curve in by_epoch if curve], gates.fixed, gates.learned, path).name]
