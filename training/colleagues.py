"""Ray's workers among themselves: their sums, and who of them is missing when one does not come about."""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from torch import Tensor

from seq2seq.errors import TrainingError
from training import workers
from training.mailbox import Wishes

# Seconds that a worker waits for its colleagues; then the group starts again. Longer than any of them saves or searches
# while others wait, longer than a network is cut that is worth waiting for.
PATIENCE = float(os.environ.get("INTERLINEAR_COLLECTIVE_SECONDS") or 300)
GRACE = 3.0  # seconds within which all whom a colleague has failed say so


class Post(Protocol):
    """A worker's end of the mailbox."""

    wishes: Wishes
    saved: int

    def go(self) -> None: ...

    def tell(self, event: str, *values: object) -> None: ...

    def ask(self, what: str, *values: object) -> Any: ...


class LostColleagueError(TrainingError):
    """A worker has waited in vain for others. Not the end: Ray starts the group again."""


class Colleagues(workers.Group):
    """Ray's workers. Rank 0 looks into the mailbox; the loop tells the others when all shall stop."""

    def __init__(self, postman: Post) -> None:
        super().__init__()
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

    def sum_(self, tensor: Tensor) -> None:
        with self.together():
            super().sum_(tensor)

    def gather(self, item: Any) -> list[Any]:
        with self.together():
            return super().gather(item)

    @contextmanager
    def together(self) -> Iterator[None]:
        """What all do at the same time. When it fails, those who are left say so, and the mailbox knows who is not."""
        began = time.monotonic()
        try:
            yield
        except RuntimeError as error:
            self.postman.ask("strand", self.rank, self.world, time.monotonic() - began)
            time.sleep(GRACE)
            raise LostColleagueError(f"rank {self.rank}", self.postman.ask("missing"), "see to that node") from error
