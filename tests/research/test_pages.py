"""The tables of a page of prose are those of the stored runs."""

from pathlib import Path

import pytest

from research.comparisons import PublishedRow, ResultsTable, TableRow
from research.pages import update_summary

pytestmark = pytest.mark.slow


def row(system: str, ours: float, **values: object) -> TableRow:
    fields: dict[str, object] = {
        "system": system, "seeds": (1,), "ours": ours, "spread": None, "low": ours, "high": ours, "gain": None,
        "p_value": None, "published": None, "published_gain": None, "parameters": 1, "epochs": (1,),
        "seed_gains": (), "minutes": (1.0,), "versions": ("abc",), **values,
    }  # fmt: skip
    return TableRow(**fields)  # type: ignore[arg-type]


TABLE = ResultsTable(
    "de-en", "about", "data", "test", "bleu", "higher", "signature",
    (
        row("rnnsearch", 41.0, published=27.83, seeds=(1, 2, 3), spread=0.114),
        row("word_attention", 41.5, gain=0.5, p_value=0.08, published=28.49, published_gain=0.66),
        row("contextual_gates", 40.0, gain=-1.0, seed_gains=(-2.1, 0.1), p_value=0.00001),
    ),
    also_published=(PublishedRow("another system", 39.5, "a citation", "settings"),),
)  # fmt: skip
PAGE = """# Results

Text before.

<!-- table paper de-en test bleu -->
an old table
<!-- end of table -->

<!-- table other de-en test bleu -->
of another paper
<!-- end of table -->
"""


def test_a_table_is_written_between_its_comments_and_nothing_else_changes(tmp_path: Path) -> None:
    page = tmp_path / "results.md"
    page.write_text(PAGE)
    update_summary(page, "paper", [TABLE])
    written = page.read_text()
    table = """| system | ours | gain | p | the paper | its gain |
|---|---|---|---|---|---|
| `rnnsearch` | 41.00 ± 0.11 (3 seeds) |  |  | 27.83 |  |
| `word_attention` | 41.50 (1 seed) | +0.50 | 0.0800 | 28.49 | +0.66 |
| `contextual_gates` | 40.00 (1 seed) | -1.00 (-2.10, +0.10) | < 0.0001 |  |  |
| *another system* | | | | 39.50 | |
"""
    assert written == PAGE.replace("an old table\n", table)
    update_summary(page, "paper", [TABLE])
    assert page.read_text() == written


def test_a_table_without_runs_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A long training does not end for it."""
    page = tmp_path / "results.md"
    page.write_text(PAGE.replace("paper de-en test bleu", "paper de-en test chrf"))
    before = page.read_text()
    update_summary(page, "paper", [TABLE])
    assert "no run of paper has the table 'de-en test chrf': it stays as it is" in capsys.readouterr().err
    assert page.read_text() == before
