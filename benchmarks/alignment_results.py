"""The saved result of `python -m benchmarks.alignment`, which a measurement of other gold sets adds to."""

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.reporting import Machine

Scores = list[dict[str, Any]]  # a record for every set, text, system, reading and variant


@dataclass(frozen=True)
class Origin:
    """Where the scores of some gold sets come from."""

    sets: tuple[str, ...]
    date: str
    commit: str
    machine: str
    command: str

    def without(self, sets: Collection[str]) -> "Origin":
        """The origin of the other sets."""
        return replace(self, sets=tuple(name for name in self.sets if name not in sets))

    def __str__(self) -> str:
        return f"{', '.join(self.sets)}: {self.date}, commit {self.commit}, {self.machine}. `{self.command}`"


@dataclass(frozen=True)
class EarlierScores:
    """Scores of sets that were measured before, and not again now."""

    scores: Scores
    origins: tuple[Origin, ...]

    @classmethod
    def read(cls, path: Path | None, measured: Collection[str]) -> "EarlierScores":
        """What the report in `path` has beside the sets in `measured`; nothing without such a file."""
        if path is None or not path.is_file():
            return cls([], ())
        report = json.loads(path.read_text())
        scores: Scores = report["measured"]["scores"]
        before = [
            Origin(**{**origin, "sets": tuple(origin["sets"])}) for origin in report["measured"].get("earlier", [])
        ]
        named = {name for origin in before for name in origin.sets}
        own = tuple(name for name in sets_of(scores) if name not in named)
        machine = str(Machine(**report["machine"]))
        before.append(Origin(own, report["date"], report["commit"], machine, report["command"]))
        kept = [origin.without(measured) for origin in before]
        return cls([one for one in scores if one["set"] not in measured], tuple(one for one in kept if one.sets))

    def joined(self, scores: Scores, order: Collection[str]) -> Scores:
        """These scores and further ones, by gold set in this order; sets that it does not name come last."""
        places = {name: place for place, name in enumerate(order)}
        return sorted([*self.scores, *scores], key=lambda one: places.get(one["set"], len(places)))

    @property
    def notes(self) -> list[str]:
        """Sentences that say which rows are of an earlier measurement."""
        return [f"Measured before: {origin}" for origin in self.origins]

    @property
    def records(self) -> list[dict[str, Any]]:
        """The origins, as they are saved."""
        return [asdict(origin) for origin in self.origins]


def sets_of(scores: Scores) -> list[str]:
    """The gold sets of scores, in their order."""
    return list(dict.fromkeys(one["set"] for one in scores))
