"""A paper's tables as pages: `table.md` with its figures, `table.json`, and the tables in the summary page in docs/.

A table in the summary page stands between two comments, which name the paper, the group, the test set and the score;
the test set `all` is the sentences of several together:

    <!-- table word-attention de-en test bleu -->
    <!-- end of table -->
"""

import json
import math
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from pydantic import TypeAdapter

from interlinear.cli.console import say
from interlinear.errors import DataError
from research.comparisons import (
    ALL_TESTS,
    AwarenessRow,
    AwarenessTable,
    ResultsTable,
    TableRow,
    build_awareness_tables,
    build_results_tables,
    format_gain,
    runs_by_system,
)
from research.figures import OVERVIEW, PaperFigures
from research.papers import PaperTables, SystemGroup, paper_names
from research.records import ScaleName, ScoredRun, read_results
from research.stored_scores import StoredOutputs
from research.tunings import SystemTuning
from training.data.arrays import write_atomically
from training.tuning.space import setting_text

SIGNIFICANT = 0.05
COLUMNS = (
    "system", "seeds", "ours", "95 % interval", "gain", "p", "paper", "paper's gain", "parameters", "epochs", "minutes",
    "version",
)  # fmt: skip
NOTES = (
    "*Ours* is the mean over the seeds, with its standard deviation. *Interval* is by bootstrap over sentences and "
    "seeds. *Gain* is over the first system, in brackets that of each seed. *p* is the chance of so large a gain on "
    "other sentences, were the systems equal: approximate randomisation of each sentence's outputs among all seeds. It "
    "takes the trainings as they are: how far others would differ, only the gains of the seeds say. *Paper* is the "
    "paper's own figure, on its own data, which is larger or licensed: gains can be compared, scores cannot. *Epochs* "
    "are those of the system's own training, without those of a system that it starts from; they and *minutes* are the "
    "least and the most of the seeds, which may be of different machines. *Version* is the commit of ours."
)
RESULTS = Path(__file__).parent / "results"
SUMMARY = RESULTS.parents[1] / "docs/results.md"
BLOCK = re.compile(r"(<!-- table (\S+) (\S+) (\S+) (\S+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
HEADING = "| system | ours | gain | p | the paper | its gain |\n|---|---|---|---|---|---|\n"
DIRECTIONS = {"higher": "", "lower": " (lower is better: a negative gain is an improvement)", "neither": ""}


def score_kept_runs(
    paper: str, table: PaperTables, scale: ScaleName, folder: Path, data_root: Path | None
) -> list[ScoredRun]:
    """The kept runs of a paper at a scale, ours first, with the statistics of every sentence. `folder`: of results."""
    outputs = StoredOutputs.of(folder, paper, data_root)
    own = [outputs.our_run(one, table) for one in read_results(folder, paper) if one.place.scale == scale]
    return own + outputs.toolkit_runs(paper, table, scale)


def page_folder(folder: Path, paper: str, scale: ScaleName) -> Path:
    """The folder of a page. `folder`: of results."""
    return folder / (paper if scale == "small" else f"{paper}-{scale}")


def write_tables(
    paper: str,
    table: PaperTables,
    scale: ScaleName,
    results: Path,
    data_root: Path | None,
    tunings: Sequence[SystemTuning] = (),
) -> Path:
    """Write the current tables: a page in Markdown with its figures, the same as JSON, and those in the summary page.

    `results`: the folder. `tunings`: of the systems that were tuned, for what they chose.
    """
    start = time.monotonic()
    runs = score_kept_runs(paper, table, scale, results, data_root)
    tables = build_results_tables(table, runs, scale)
    awareness = build_awareness_tables(table, runs, scale)
    folder = page_folder(results, paper, scale)
    figures = PaperFigures(table, scale, tables, runs).draw_for_page(folder)
    command = f"python -m research reproduce {paper if paper in paper_names() else f'{paper}.yaml'} --scale {scale}"
    page = Page(table, scale, runs, tables, awareness, command, time.monotonic() - start, figures, tunings)
    (folder / "table.md").write_text(page.markdown(), encoding="utf-8")
    content: list[ResultsTable | AwarenessTable] = [*tables, *awareness]
    lines = ",\n".join(json.dumps(asdict(one), separators=(",", ":")) for one in content)  # a table a line
    (folder / "table.json").write_text(f"[{lines}]\n", encoding="utf-8")
    if scale == "small" and results.resolve() == RESULTS:
        update_summary(SUMMARY, paper, tables)
    return folder / "table.md"


def read_tables(folder: Path) -> list[ResultsTable]:
    """The tables of a page's folder. Raises DataError if there is no page yet."""
    path = folder / "table.json"
    if not path.is_file():
        raise DataError(str(path), "is not there yet", "write the page first: python -m research reproduce")
    tables = TypeAdapter(list[ResultsTable | AwarenessTable]).validate_json(path.read_bytes())
    return [one for one in tables if isinstance(one, ResultsTable)]


@dataclass(frozen=True)
class Page:
    """What a page shows.

    `figures`: the names of those that were drawn. `seconds`: the time that the tables and figures took.
    """

    table: PaperTables
    scale: ScaleName
    results: Sequence[ScoredRun]
    tables: Sequence[ResultsTable]
    awareness: Sequence[AwarenessTable]
    command: str
    seconds: float
    figures: Collection[str] = ()
    tunings: Sequence[SystemTuning] = ()

    def markdown(self) -> str:
        """The page's text."""
        lines = [*self.head_lines(), *self.image_links(OVERVIEW)]
        for group in dict.fromkeys(one.group for one in self.tables):
            lines += self.group_lines(group)
        return "\n".join([*lines, NOTES, ""])

    def head_lines(self) -> list[str]:
        """The title, and how, where and in which time the results were made."""
        own = [run.result for run in self.results if run.result]
        dates = sorted({run.date[:10] for run in own})
        machines = dict.fromkeys(run.machine for run in own)
        commits = dict.fromkeys(run.version for run in self.results if run.result)
        minutes = sum(run.seconds / 60 for run in own)
        one_commit = f"All runs are of commit {next(iter(commits), 'unknown')}."
        several = (
            f"**The runs are of {len(commits)} commits** ({', '.join(commits)}): the last column says which is whose."
        )
        return [
            f"# {self.table.about}",
            "",
            f"Scale: {self.scale}. {' to '.join(dict.fromkeys((dates[0], dates[-1])))}; {'; '.join(machines)}.",
            "",
            f"    {self.command}",
            "",
            f"From the kept results this takes {format_minutes(self.seconds / 60)}; the trainings took "
            f"{format_minutes(minutes)} together ({len(own)} runs).",
            "",
            one_commit if len(commits) < 2 else several,
            "",
        ]

    def group_lines(self, name: str) -> list[str]:
        """All tables of a group."""
        group = self.table.groups[name]
        lines = [f"## {name}: {group.about}", "", *self.seed_lines(name, group)]
        lines += tuning_lines([one for one in self.tunings if one.place.group == name], group.taken_from)
        for one in self.tables:
            if one.group == name:
                subject = f"{name}.{one.test}"
                lines += [*table_lines(one), *self.image_links(f"{subject}.{one.metric}")]
                lines += self.image_links(f"{subject}.lengths") if one.metric == "bleu" else []
        lines += awareness_lines([one for one in self.awareness if one.group == name])
        return lines + self.image_links(f"{name}.curves", f"{name}.gates")

    def seed_lines(self, name: str, group: SystemGroup) -> list[str]:
        """Which systems have fewer seeds than others, and which are not scored on a test set."""
        runs = runs_by_system(name, group, self.results, self.scale)
        seeds = {system: len(own) for system, own in runs.items()}
        fewer = [f"{system} {count}" for system, count in seeds.items() if count < max(seeds.values())]
        lines = []
        if fewer:
            lines += [f"**Fewer seeds than {max(seeds.values())}:** {', '.join(fewer)}.", ""]
        for test in group.tests:
            without = [system for system, own in runs.items() if any(test not in run.tests for run in own)]
            if without:
                lines += [f"**Not scored on `{test}`**, all or some seeds: {', '.join(without)}.", ""]
        absent = [system for system in group.toolkit_systems if system not in runs]
        if absent:
            lines += [f"No outputs are stored of {', '.join(absent)}.", ""]
        return lines

    def image_links(self, *names: str) -> list[str]:
        """The figures of these names that were drawn."""
        return [line for name in names if name in self.figures for line in (f"![{name}]({name}.png)", "")]


def tuning_lines(tunings: Sequence[SystemTuning], taken_from: Mapping[str, str]) -> list[str]:
    """What each system of a group was tuned by, the values that were chosen, and whose runs are another group's."""
    if not tunings:
        return []
    first = tunings[0]
    keys = list(dict.fromkeys(key for one in tunings for key in one.record.space))
    names = [key.rpartition(".")[2] for key in keys]
    heading = ["system", *(f"`{name}`" for name in names), f"dev {first.score_name}", "of the recipe itself"]
    rows = [
        [one.place.system, *(value_text(one.best.values.get(key)) for key in keys), one.chosen_score, one.recipe_score]
        for one in tunings
    ]
    return [
        f"Each system was tuned by the same budget: {first.budget.trials} trials of at most {first.budget.epochs} "
        "epochs (`interlinear tune`, ASHA), the first with the recipe's own values. The values with the best dev "
        f"{first.score_name} are the settings of its runs here:",
        "",
        *(f"| {' | '.join(row)} |" for row in (heading, ["---"] * len(heading), *rows)),
        "",
        *shared_setting_lines(tunings),
        *(
            line
            for one in tunings
            if not one.run_settings and (group := taken_from.get(one.place.system))
            for line in (
                f"The recipe itself is the best for `{one.place.system}`: its runs are those of `{group}`.",
                "",
            )
        ),
    ]


def shared_setting_lines(tunings: Sequence[SystemTuning]) -> list[str]:
    """The settings of all trials, which the runs with chosen values have as well."""
    settings = tunings[0].budget.settings
    if not settings or not any(one.run_settings for one in tunings):
        return []
    named = ", ".join(f"`{key}={value}`" for key, value in settings.items())
    return [f"Runs with chosen values have {named} too, as all trials had.", ""]


def value_text(value: object) -> str:
    """A value that was tuned; empty where a system does not have the key."""
    return "" if value is None else setting_text(value)


def table_lines(one: ResultsTable) -> list[str]:
    """A table with its heading, signature, and the sources of figures that are not ours."""
    test = f"all test sets ({', '.join(one.pooled)})" if one.test == ALL_TESTS else one.test
    unedited = [] if one.unedited is None else [cells("*unedited*", "", f"{one.unedited:.2f}")]
    published = [cells(f"*{row.system}*", *[""] * 5, f"{row.score:.2f}") for row in one.also_published]
    return [
        f"### {one.data}, {test}: {one.metric}{DIRECTIONS[one.better]}",
        "",
        f"`{one.signature}`",
        "",
        cells(*COLUMNS),
        "|---" * len(COLUMNS) + "|",
        *unedited,
        *(row_line(row) for row in one.rows),
        *published,
        "",
        *source_lines(one),
    ]


def source_lines(one: ResultsTable) -> Iterator[str]:
    """The citations of the figures that are not ours."""
    for row in one.also_published:
        yield f"- *{row.system}*: {row.citation}" + (f"; {row.settings}" if row.settings else "")
    if one.also_published:
        yield ""


def row_line(row: TableRow) -> str:
    """A row of a table in Markdown."""
    return cells(
        row.system,
        str(len(row.seeds)),
        f"{row.ours:.2f}" + ("" if row.spread is None else f" ± {row.spread:.2f}"),
        f"{row.low:.2f} - {row.high:.2f}" if row.low < row.high else "",
        format_gain(row.gain, row.seed_gains),
        "" if row.p_value is None else f"{row.p_value:.4f}" + (" *" if row.p_value < SIGNIFICANT else ""),
        "" if row.published is None else f"{row.published:.2f}",
        format_gain(row.published_gain),
        "" if row.parameters is None else f"{row.parameters / 1e6:.1f}M",
        format_range(row.epochs),
        format_range([round(minutes) for minutes in row.minutes]),
        ", ".join(row.versions),
    )


def cells(*texts: str) -> str:
    """A row of a Markdown table; cells that are not given are empty."""
    filled = [*texts, *[""] * (len(COLUMNS) - len(texts))]
    return "|" + "".join(f" {text} |" if text else " |" for text in filled)


def format_range(numbers: Sequence[int]) -> str:
    """The smallest and the largest of some numbers, or one number where they are equal."""
    return " - ".join(dict.fromkeys(str(limit(numbers)) for limit in (min, max))) if numbers else ""


def format_minutes(minutes: float) -> str:
    """A duration in whole minutes, rounded up, or in hours and minutes."""
    whole = math.ceil(minutes)
    if whole <= 1:
        return "less than a minute" if minutes < 1 else "1 minute"
    return f"{whole} minutes" if whole < 120 else f"{whole // 60} h {whole % 60:02} min"


def awareness_lines(tables: Sequence[AwarenessTable]) -> list[str]:
    """The tables in Markdown."""
    lines = []
    for one in tables:
        lines += [
            f"### {one.data}, {one.test}: {one.metric} with the images of other sentences",
            "",
            f"{one.lines:,} sentences have an image.",
            "",
            "| system | seeds | right images | shuffled | awareness | p |",
            "|---|---|---|---|---|---|",
            *(awareness_line(row) for row in one.rows),
            "",
        ]
    return lines


def awareness_line(row: AwarenessRow) -> str:
    p_value = f"{row.p_value:.4f}" + (" *" if row.p_value < 0.05 else "")
    return (
        f"| {row.system} | {len(row.seeds)} | {row.right:.2f} | {row.shuffled:.2f} | {row.awareness:+.2f} | {p_value} |"
    )


def update_summary(page: Path, paper: str, tables: Sequence[ResultsTable]) -> None:
    """Rewrite the tables of a paper in a page. A table without any run stays as it is, with a warning: the runs may
    have been removed, to be trained anew."""
    by_name = {(table.group, table.test, table.metric): table for table in tables}
    text = page.read_text(encoding="utf-8")

    def rewrite(block: re.Match[str]) -> str:
        begin, of_paper, *name, end = block.groups()
        if of_paper != paper:
            return block[0]
        table = by_name.get((name[0], name[1], name[2]))
        if table is None:
            say(f"{page}: no run of {paper} has the table '{' '.join(name)}': it stays as it is")
            return block[0]
        return begin + summary_table(table) + end

    write_atomically(page, BLOCK.sub(rewrite, text).encode())


def summary_table(table: ResultsTable) -> str:
    """The table in Markdown: means over the seeds, gains over the first system (in brackets those of the seeds), and
    the paper's figures."""
    unedited = "" if table.unedited is None else f"| *unedited* | {table.unedited:.2f} | | | | |\n"
    others = [f"| *{row.system}* | | | | {row.score:.2f} | |\n" for row in table.also_published]
    return HEADING + unedited + "".join([*map(summary_row, table.rows), *others])


def summary_row(row: TableRow) -> str:
    spread = "" if row.spread is None else f" ± {row.spread:.2f}"
    seeds = "1 seed" if len(row.seeds) == 1 else f"{len(row.seeds)} seeds"
    p_value = "" if row.p_value is None else f"{row.p_value:.4f}" if row.p_value >= 0.0001 else "< 0.0001"
    published = "" if row.published is None else f"{row.published:.2f}"
    cells = [f"`{row.system}`", f"{row.ours:.2f}{spread} ({seeds})", format_gain(row.gain, row.seed_gains), p_value]
    return "| " + " | ".join([*cells, published, format_gain(row.published_gain)]) + " |\n"
