"""The report of all parts as JSON and Markdown, written again whenever something is measured."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.gpu.cases import Part, Row
from benchmarks.gpu.floor import Work
from benchmarks.gpu.run import Outcome
from benchmarks.reporting import Machine, command, commit, markdown_table, table_number

TESTS = "tests"


@dataclass
class GpuReport:
    """What is measured until now, by part."""

    folder: Path
    parts: Mapping[str, Part]
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    machine: Machine = field(default_factory=Machine.here)
    date: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))
    commit: str = field(default_factory=commit)
    command: str = field(default_factory=command)

    def update(self, name: str, outcome: Outcome) -> None:
        """Set a part's outcome and write both files, each replaced at once."""
        self.outcomes[name] = outcome
        about = {key: getattr(self, key) for key in ("date", "commit", "command")}
        content = about | {
            "machine": asdict(self.machine),
            "parts": {part: asdict(each) for part, each in self.outcomes.items()},
        }
        self.write("report.json", json.dumps(content, indent=1) + "\n")
        self.write("report.md", self.markdown())

    def write(self, name: str, text: str) -> None:
        temporary = self.folder / f".{name}"
        temporary.write_text(text)
        temporary.replace(self.folder / name)

    @property
    def failures(self) -> list[str]:
        return [f"{name}: {failure}" for name, outcome in self.outcomes.items() for failure in outcome.failures]

    def markdown(self) -> str:
        rows = self.outcomes["device"].rows if "device" in self.outcomes else []
        device = rows[0]["device"] if rows else "unknown"
        blocks = ["# On a GPU", f"{self.date}, commit {self.commit}. {device}; {self.machine}.", f"    {self.command}"]
        if self.failures:
            blocks += ["## Failures", "\n".join(f"- {failure}" for failure in self.failures)]
        for name, outcome in self.outcomes.items():
            blocks += self.section(name, outcome)
        return "\n\n".join(blocks) + "\n"

    def section(self, name: str, outcome: Outcome) -> list[str]:
        """A part's heading, table and notes."""
        if name == TESTS:
            rows = [[str(row["file"]), str(row["result"])] for row in outcome.rows]
            return ["## Tests", markdown_table(["file", "result"], rows)]
        part = self.parts[name]
        state = "running" if outcome.running else f"in {outcome.seconds:.0f} s"
        cut = f", and {outcome.cut} in part" if outcome.cut else ""
        measured = f"{outcome.ended} of {outcome.cases} cases{cut}, {state}. {part.notes}"
        if not outcome.rows:
            return [f"## {part.title}", measured]
        cells = [[cell(key, self.value(key, row)) for key in part.columns] for row in outcome.rows]
        return [f"## {part.title}", markdown_table(list(part.columns.values()), cells), measured]

    def value(self, key: str, row: Row) -> Any:
        if key != "floor":
            return row.get(key)
        rates = self.outcomes["device"].rows
        if not rates:
            return None
        work = Work(row["operations"], row["bytes"])
        return 1000 * work.seconds(rates[0][row["precision"]], rates[0]["bytes"])


def cell(key: str, value: Any) -> str:
    """A value as shown in a table."""
    if value is None:
        return ""
    if key == "idle":
        return f"{100 * value:.0f} %"
    if isinstance(value, float):
        return f"{value:.3g}" if value < 0.1 or value >= 1e9 else table_number(value)
    return str(value)
