"""Ray's workers among themselves: their sums, and who of them is missing when one does not come about."""

import time
from typing import Any, Protocol

from training.loop import process_group
from training.loop.process_group import LostColleagueError
from training.ray.control import Wishes

GRACE = 3.0  # seconds within which all whom a colleague has failed say so


class Post(Protocol):
    """A worker's end of the mailbox."""

    wishes: Wishes
    saved: int

    def go(self) -> None: ...

    def tell(self, event: str, *values: object) -> None: ...

    def ask(self, what: str, *values: object) -> Any: ...


class Colleagues(process_group.Group):
    """Ray's workers. Rank 0 looks into the mailbox; the loop tells the others when all shall stop."""

    def __init__(self, postman: Post, patience: float) -> None:
        super().__init__(patience)
        self.postman = postman
        self.wish = 0  # the newest wish to save that has been heard

    def asked_to_stop(self) -> int:
        if self.rank == 0:
            self.postman.go()
        return self.postman.wishes.signal

    def asked_to_save(self) -> bool:
        new = self.postman.wishes.saves > self.wish
        self.wish = self.postman.wishes.saves
        return new

    def have_saved(self) -> None:
        self.postman.saved = self.wish  # the next letter says so

    def lost(self, seconds: float) -> LostColleagueError:
        """Those who are left say so, and the mailbox knows who is not: torch names no rank."""
        self.postman.ask("strand", self.rank, self.world, seconds)
        time.sleep(GRACE)
        return LostColleagueError(f"rank {self.rank}", self.postman.ask("missing"), "see to that node")
