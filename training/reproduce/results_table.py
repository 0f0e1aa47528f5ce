"""A paper's tables as they stand: ours beside the paper's, gains beside gains, from the runs that are kept."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, stdev

from seq2seq.metrics.catalogue import select_metrics
from seq2seq.metrics.significance import SystemResult, compare
from training.reproduce.papers import PaperTables, Result, ScaleName, SystemGroup

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class TableRow:
    """A system on a test set by one score. Gains are over the group's first system; a test's p-value is of that
    difference by approximate randomisation, over sentences and seeds; low and high are a 95 % interval by bootstrap."""

    system: str
    seeds: tuple[int, ...]
    ours: float
    spread: float | None  # standard deviation over the seeds
    low: float
    high: float
    gain: float | None
    p_value: float | None
    published: float | None  # of the paper; None on test sets and scores that it has not
    published_gain: float | None
    parameters: int
    minutes: float
    commits: tuple[str, ...]


@dataclass(frozen=True)
class ResultsTable:
    """One test set's scores of a group's systems, the baseline first."""

    group: str
    about: str
    data: str
    test: str
    metric: str
    signature: str
    rows: tuple[TableRow, ...]
    unedited: float | None = None  # what the machine translations score that are edited


def build_results_tables(table: PaperTables, results: Sequence[Result], scale: ScaleName) -> list[ResultsTable]:
    """Every group, test set and score that two systems at least have been run for, or one."""
    found = []
    for name, group in table.groups.items():
        own = [one for one in results if one.place.group == name and one.place.scale == scale]
        runs = {system: [one for one in own if one.place.system == system] for system in group.systems}
        runs = {system: made for system, made in runs.items() if made}
        if not runs:
            continue
        first = next(iter(runs.values()))[0]
        for test, judged in first.tests.items():
            for metric in judged.scores:
                found.append(build_results_table(name, group, test, metric, runs))
    return found


def build_results_table(
    name: str, group: SystemGroup, test: str, metric: str, runs: dict[str, list[Result]]
) -> ResultsTable:
    """One score on one test set."""
    first = next(iter(runs.values()))[0]
    (judge,) = select_metrics([metric], first.tests[test].reading)
    ways = dict.fromkeys(one.tests[test].scores[metric].signature for made in runs.values() for one in made)
    signature = " and ".join(ways)  # systems may look in ways of their own, by which their alignments are read
    statistics = {system: [one.tests[test].of(metric) for one in made] for system, made in runs.items()}
    drawn: dict[str, SystemResult] = {}
    chances: dict[str, SystemResult] = {}
    if len(runs) > 1:
        drawn = {one.system: one for one in compare(judge, statistics, "bootstrap", signature).systems}
        chances = {one.system: one for one in compare(judge, statistics, "randomisation", signature).systems}
    baseline = next(iter(group.systems))
    has_baseline = baseline in runs
    standard = mean(one.tests[test].scores[metric].score for one in runs[baseline]) if has_baseline else None
    zero = group.published_score(baseline, test, metric)
    gains = group.published == "gain" and metric == group.metric
    rows = []
    for system, made in runs.items():
        scores = [one.tests[test].scores[metric].score for one in made]
        ours = mean(scores)
        interval, chance = drawn.get(system), chances.get(system)
        published = group.published_score(system, test, metric)
        rows.append(
            TableRow(
                system=system,
                seeds=tuple(one.place.seed for one in made),
                ours=ours,
                spread=stdev(scores) if len(scores) > 1 else None,
                low=ours if interval is None or interval.low is None else interval.low,
                high=ours if interval is None or interval.high is None else interval.high,
                gain=None if standard is None or system == baseline else ours - standard,
                p_value=chance.p_value if chance and has_baseline else None,
                published=None if gains else published,
                published_gain=None if published is None or zero is None or system == baseline else published - zero,
                parameters=made[0].parameters,
                minutes=mean(one.seconds for one in made) / 60,
                commits=tuple(dict.fromkeys((one.commit or "unknown")[:10] for one in made)),
            )
        )
    unedited = first.tests[test].unedited.get(metric)
    return ResultsTable(name, group.about, first.training.data, test, metric, signature, tuple(rows), unedited)


def main_tables(table: PaperTables, found: Sequence[ResultsTable]) -> list[ResultsTable]:
    """Of every group one score on its first test set: that which the paper's figures are in, if it has that."""
    short = []
    for name in dict.fromkeys(one.group for one in found):
        own = [one for one in found if one.group == name]
        short.append(next((one for one in own if one.metric == table.groups[name].metric), own[0]))
    return short


def markdown(
    table: PaperTables,
    scale: ScaleName,
    found: Sequence[ResultsTable],
    results: Sequence[Result],
    command: str,
    pictures: Mapping[ResultsTable | str | None, Sequence[str]],
) -> str:
    """The tables as a page. `pictures`: file names by what they are of: a standing, a group, or (None) all."""
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
    lines += image_links(pictures, None)
    heading = (
        "| system | seeds | ours | 95 % interval | gain | p | paper | paper's gain | parameters | minutes | commit |"
    )
    for group in dict.fromkeys(one.group for one in found):
        lines += [f"## {group}: {table.groups[group].about}", ""]
        for one in found:
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
                *image_links(pictures, one),
            ]
        lines += image_links(pictures, group)
    lines += [
        "*Ours* is the mean over the seeds, with its standard deviation. *Interval* is by bootstrap over sentences and "
        "seeds. *p* is the chance of so large a difference from the first system, were there none: approximate "
        "randomisation over sentences and seeds. *Paper* is the paper's own figure, on its own data, which is larger "
        "or licensed: gains can be compared, scores cannot.",
        "",
    ]
    return "\n".join(lines)


def image_links(
    pictures: Mapping[ResultsTable | str | None, Sequence[str]], of: ResultsTable | str | None
) -> list[str]:
    """The pictures of something, in the page."""
    return [line for name in pictures.get(of, ()) for line in (f"![{name.removesuffix('.svg')}]({name})", "")]


def published_label(row: TableRow) -> str:
    """What the paper reports of a system, in a picture."""
    published_score = "" if row.published is None else f"{row.published:.2f}"
    reported = ", ".join(filter(None, [published_score, format_gain(row.published_gain)]))
    return f"paper: {reported}" if reported else ""


def markdown_row(row: TableRow) -> str:
    """A row of the page."""
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


def as_json(found: Sequence[ResultsTable]) -> list[dict[str, object]]:
    """The tables for programs."""
    return [asdict(one) for one in found]
