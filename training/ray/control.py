"""What stands between the driver and its workers: news one way; the other way the wish to stop, and to save."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

POST = 0.5  # seconds between two letters, and between two looks into the mailbox


@dataclass(frozen=True)
class Wishes:
    """What the workers are asked for: to stop, by the signal that the driver has received, and to save: how often."""

    signal: int = 0
    saves: int = 0


@dataclass(frozen=True)
class Post:
    """What the driver finds: letters, where Ray Train stands, and how often and why a group of workers has failed."""

    letters: list[bytes]
    state: str = ""
    failures: int = 0
    why: str = ""
    details: str = ""


class Mailbox:
    """Lives in a process of its own. Letters are pickled at the sender: what they speak of is not needed here."""

    def __init__(self) -> None:
        self.letters: list[bytes] = []
        self.starts: dict[int, int] = {}
        self.places: dict[int, str] = {}
        self.stranded: dict[int, float] = {}
        self.world = 0
        self.wishes = Wishes()
        self.saved = 0
        self.state, self.failures, self.why, self.details = "", 0, "", ""
        self.controller: Any = None

    def lead(self, controller: Any) -> None:
        """Ray Train's controller is this actor."""
        self.controller = controller

    def leader(self) -> Any:
        """That actor; None until it has begun."""
        return self.controller

    def start(self, rank: int, place: str) -> int:
        """A worker of this rank begins, in a process there; returns how many did so far, this one included."""
        self.starts[rank] = self.starts.get(rank, 0) + 1
        self.places[rank] = place
        self.stranded.clear()
        return self.starts[rank]

    def post(self, letter: bytes, saved: int = 0) -> Wishes:
        """Leave a letter, and say which wish to save has been met; returns all wishes."""
        self.letters.append(letter)
        self.saved = max(self.saved, saved)
        return self.wishes

    def strand(self, rank: int, world: int, seconds: float) -> None:
        """A worker's colleagues have failed it in a sum, after so long."""
        self.stranded[rank], self.world = seconds, world

    def missing(self) -> str:
        """Who it is that does not say so: a sum's connections fail everywhere, and torch names no rank."""
        if not self.stranded:
            return ""
        others = [rank for rank in range(self.world) if rank not in self.stranded]
        named = self.named(others)
        seconds = max(self.stranded.values())
        what = f"{named} took no part" if others else "the network failed"
        return f"{what} in a sum over {self.world} workers, within {seconds:.0f} s"

    def ask_to_save(self) -> int:
        """Wish that a state is saved; returns the wish's number."""
        self.wishes = Wishes(self.wishes.signal, self.wishes.saves + 1)
        return self.wishes.saves

    def has_saved(self) -> int:
        """The newest wish that has been met."""
        return self.saved

    def named(self, ranks: Iterable[int]) -> str:
        """Ranks, and where each is."""
        return " and ".join(f"rank {rank} ({self.places.get(rank, 'never begun')})" for rank in ranks)

    def stand(self, state: str) -> None:
        """Ray Train has come to another state."""
        self.state = state

    def fail(self, dead: Sequence[int], why: str, details: str) -> None:
        """A group of workers has failed: these have died; what Ray says of the others, in a line, and all of it."""
        self.failures, self.details = self.failures + 1, details
        self.why = f"{self.named(dead)} {'has' if len(dead) == 1 else 'have'} died" if dead else self.missing() or why

    def collect(self, signal: int) -> Post:
        """Take all letters, and leave the signal that the driver has received."""
        self.wishes = Wishes(signal, self.wishes.saves)
        letters, self.letters = self.letters, []
        return Post(letters, self.state, self.failures, self.why, self.details)
