"""Tables in a page of prose that `interlinear reproduce` keeps up to date: of a folder `results` the page `results.md`.

A table stands between two comments, which name the paper, the group, the test set and the score; the test set `all` is
the sentences of several together:

    <!-- table word-attention de-en test bleu -->
    <!-- end of table -->
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from interlinear.console import say

if TYPE_CHECKING:
    from training.reproduce.results_table import ResultsTable, TableRow

BLOCK = re.compile(r"(<!-- table (\S+) (\S+) (\S+) (\S+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
HEADING = "| system | ours | gain | p | the paper | its gain |\n|---|---|---|---|---|---|\n"


def update_page(page: Path, paper: str, tables: "Sequence[ResultsTable]") -> None:
    """Rewrite the tables of a paper in a page, if there is one. A table without any run stays as it is, with a warning:
    the runs may have been removed, to be trained anew."""
    from training.data.arrays import write_atomically

    if not page.is_file():
        return
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


def summary_table(table: "ResultsTable") -> str:
    """The table in Markdown: means over the seeds, gains over the first system (in brackets those of the seeds), and
    the paper's figures."""
    unedited = "" if table.unedited is None else f"| *unedited* | {table.unedited:.2f} | | | | |\n"
    others = [f"| *{row.system}* | | | | {row.score:.2f} | |\n" for row in table.also_published]
    return HEADING + unedited + "".join([*map(summary_row, table.rows), *others])


def summary_row(row: "TableRow") -> str:
    from training.reproduce.results_table import format_gain

    spread = "" if row.spread is None else f" ± {row.spread:.2f}"
    seeds = "1 seed" if len(row.seeds) == 1 else f"{len(row.seeds)} seeds"
    p_value = "" if row.p_value is None else f"{row.p_value:.4f}" if row.p_value >= 0.0001 else "< 0.0001"
    published = "" if row.published is None else f"{row.published:.2f}"
    cells = [f"`{row.system}`", f"{row.ours:.2f}{spread} ({seeds})", format_gain(row.gain, row.seed_gains), p_value]
    return "| " + " | ".join([*cells, published, format_gain(row.published_gain)]) + " |\n"
