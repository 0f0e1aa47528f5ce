"""Tables of results from stored runs: our scores beside the paper's, and our gains beside the paper's."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, stdev

from seq2seq.metrics.catalogue import select_metrics
from seq2seq.metrics.significance import SystemResult, compare
from training.reproduce.papers import PaperTables, Result, ScaleName, SystemGroup

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class TableRow:
    """A system's score on a test set.

    `gain`: the difference from the group's first system. `p_value`: of that difference, by approximate randomisation
    over sentences and seeds. `low`, `high`: a 95 % interval by bootstrap.
    """

    system: str
    seeds: tuple[int, ...]
    ours: float
    spread: float | None  # standard deviation over the seeds
    low: float
    high: float
    gain: float | None
    p_value: float | None
    published: float | None  # the paper's score; None if the paper does not report it
    published_gain: float | None
    parameters: int
    minutes: float
    commits: tuple[str, ...]


@dataclass(frozen=True)
class ResultsTable:
    """The systems of a group by one score on one test set, the baseline first."""

    group: str
    about: str
    data: str
    test: str
    metric: str
    signature: str
    rows: tuple[TableRow, ...]
    unedited: float | None = None  # the score of the unedited machine translations, in post-editing


def build_results_tables(table: PaperTables, results: Sequence[Result], scale: ScaleName) -> list[ResultsTable]:
    """A table for each group, test set and score that at least one run has."""
    tables = []
    for name, group in table.groups.items():
        group_results = [one for one in results if one.place.group == name and one.place.scale == scale]
        runs = {system: [one for one in group_results if one.place.system == system] for system in group.systems}
        runs = {system: runs_of_system for system, runs_of_system in runs.items() if runs_of_system}
        if not runs:
            continue
        first = next(iter(runs.values()))[0]
        for test, test_result in first.tests.items():
            for metric in test_result.scores:
                tables.append(build_results_table(name, group, test, metric, runs))
    return tables


def build_results_table(
    name: str, group: SystemGroup, test: str, metric: str, runs: dict[str, list[Result]]
) -> ResultsTable:
    """The table of one score on one test set."""
    first = next(iter(runs.values()))[0]
    (scorer,) = select_metrics([metric], first.tests[test].reading)
    signatures = dict.fromkeys(one.tests[test].scores[metric].signature for results in runs.values() for one in results)
    signature = " and ".join(signatures)  # systems may differ in how their alignments are read
    statistics = {system: [one.tests[test].of(metric) for one in results] for system, results in runs.items()}
    bootstrap: dict[str, SystemResult] = {}
    randomisation: dict[str, SystemResult] = {}
    if len(runs) > 1:
        bootstrap = {one.system: one for one in compare(scorer, statistics, "bootstrap", signature).systems}
        randomisation = {one.system: one for one in compare(scorer, statistics, "randomisation", signature).systems}
    baseline = next(iter(group.systems))
    has_baseline = baseline in runs
    baseline_score = mean(one.tests[test].scores[metric].score for one in runs[baseline]) if has_baseline else None
    base = group.published_score(baseline, test, metric)
    gains_published = group.published == "gain" and metric == group.metric
    rows = []
    for system, results in runs.items():
        scores = [one.tests[test].scores[metric].score for one in results]
        ours = mean(scores)
        interval, test_of_gain = bootstrap.get(system), randomisation.get(system)
        published = group.published_score(system, test, metric)
        rows.append(
            TableRow(
                system=system,
                seeds=tuple(one.place.seed for one in results),
                ours=ours,
                spread=stdev(scores) if len(scores) > 1 else None,
                low=ours if interval is None or interval.low is None else interval.low,
                high=ours if interval is None or interval.high is None else interval.high,
                gain=None if baseline_score is None or system == baseline else ours - baseline_score,
                p_value=test_of_gain.p_value if test_of_gain and has_baseline else None,
                published=None if gains_published else published,
                published_gain=None if published is None or base is None or system == baseline else published - base,
                parameters=results[0].parameters,
                minutes=mean(one.seconds for one in results) / 60,
                commits=tuple(dict.fromkeys((one.commit or "unknown")[:10] for one in results)),
            )
        )
    unedited = first.tests[test].unedited.get(metric)
    return ResultsTable(name, group.about, first.training.data, test, metric, signature, tuple(rows), unedited)


def main_tables(table: PaperTables, tables: Sequence[ResultsTable]) -> list[ResultsTable]:
    """One table for each group, on its first test set: the score that the paper reports, if there is one, else the
    first."""
    selected = []
    for name in dict.fromkeys(one.group for one in tables):
        group_tables = [one for one in tables if one.group == name]
        selected.append(next((one for one in group_tables if one.metric == table.groups[name].metric), group_tables[0]))
    return selected


def markdown(
    table: PaperTables,
    scale: ScaleName,
    tables: Sequence[ResultsTable],
    results: Sequence[Result],
    command: str,
    figures: Mapping[ResultsTable | str | None, Sequence[str]],
) -> str:
    """The tables as a Markdown page. `figures`: figure files by what they show: a table, a group, or (None) all
    tables."""
    machines = dict.fromkeys(one.machine for one in results)
    commits = dict.fromkeys((one.commit or "unknown")[:10] for one in results)
    dates = sorted({one.date[:10] for one in results})
    lines = [
        f"# {table.about}",
        "",
        f"Scale: {scale}. {' to '.join(dict.fromkeys((dates[0], dates[-1])))}; {'; '.join(machines)}.",
        "",
        f"    {command}",
        "",
    ]
    if len(commits) > 1:
        lines += [
            f"**The runs are of {len(commits)} commits** ({', '.join(commits)}): the last column says which is whose.",
            "",
        ]
    else:
        lines += [f"All runs are of commit {next(iter(commits))}.", ""]
    lines += image_links(figures, None)
    heading = (
        "| system | seeds | ours | 95 % interval | gain | p | paper | paper's gain | parameters | minutes | commit |"
    )
    for group in dict.fromkeys(one.group for one in tables):
        lines += [f"## {group}: {table.groups[group].about}", ""]
        for one in tables:
            if one.group != group:
                continue
            lines += [
                f"### {one.data}, {one.test}: {one.metric}",
                "",
                f"`{one.signature}`",
                "",
                heading,
                "|---|---|---|---|---|---|---|---|---|---|---|",
                *([] if one.unedited is None else [f"| *unedited* | | {one.unedited:.2f} |" + " |" * 8]),
                *(markdown_row(row) for row in one.rows),
                "",
                *image_links(figures, one),
            ]
        lines += image_links(figures, group)
    lines += [
        "*Ours* is the mean over the seeds, with its standard deviation. *Interval* is by bootstrap over sentences and "
        "seeds. *p* is the chance of so large a difference from the first system, were there none: approximate "
        "randomisation over sentences and seeds. *Paper* is the paper's own figure, on its own data, which is larger "
        "or licensed: gains can be compared, scores cannot.",
        "",
    ]
    return "\n".join(lines)


def image_links(figures: Mapping[ResultsTable | str | None, Sequence[str]], of: ResultsTable | str | None) -> list[str]:
    """The figures of a table, a group, or all tables, as Markdown lines."""
    return [line for name in figures.get(of, ()) for line in (f"![{name.removesuffix('.svg')}]({name})", "")]


def published_label(row: TableRow) -> str:
    """The paper's score and gain of a system, as a label in a figure."""
    published_score = "" if row.published is None else f"{row.published:.2f}"
    reported = ", ".join(filter(None, [published_score, format_gain(row.published_gain)]))
    return f"paper: {reported}" if reported else ""


def markdown_row(row: TableRow) -> str:
    """A row of a table in Markdown."""
    cells = [
        row.system,
        str(len(row.seeds)),
        f"{row.ours:.2f}" + ("" if row.spread is None else f" ± {row.spread:.2f}"),
        f"{row.low:.2f} - {row.high:.2f}" if row.low < row.high else "",
        format_gain(row.gain),
        "" if row.p_value is None else f"{row.p_value:.4f}" + (" *" if row.p_value < SIGNIFICANT else ""),
        "" if row.published is None else f"{row.published:.2f}",
        format_gain(row.published_gain),
        f"{row.parameters / 1e6:.1f}M",
        f"{row.minutes:.0f}",
        ", ".join(row.commits),
    ]
    return "| " + " | ".join(cells) + " |"


def format_gain(gain: float | None) -> str:
    return "" if gain is None else f"{gain:+.2f}"


def as_json(tables: Sequence[ResultsTable]) -> list[dict[str, object]]:
    """The tables as dictionaries, for JSON output."""
    return [asdict(results_table) for results_table in tables]
