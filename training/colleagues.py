"""Ray's workers among themselves: their sums, and who of them is missing when one does not come about."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from torch import Tensor

from seq2seq.errors import TrainingError
from training import workers
from training.mailbox import Wishes

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

    def asked_to_stop(self) -> int:
        if self.rank == 0:
            self.postman.go()
        return self.postman.wishes.signal

    def asked_to_save(self) -> bool:
        new = self.postman.wishes.saves > self.postman.saved
        self.postman.saved = self.postman.wishes.saves  # the next letter says so: by then it has been saved
        return new

    def sum_(self, tensor: Tensor) -> None:
        with self.together():
            super().sum_(tensor)

    def gather(self, item: Any) -> list[Any]:
        with self.together():
            return super().gather(item)

    @contextmanager
    def together(self) -> Iterator[None]:
        """What all do at the same time. When it fails, those who are left find out who is not.

        torch says which connection has failed or kept silent, not which rank: that is the one that has nothing to say.
        """
        began = time.monotonic()
        try:
            yield
        except RuntimeError as error:
            waited = time.monotonic() - began
            deadline = time.monotonic() + GRACE
            while (missing := self.postman.ask("strand", self.rank, self.world)) and time.monotonic() < deadline:
                time.sleep(GRACE / 10)
            named = " and ".join(f"rank {rank} ({place})" for rank, place in missing.items())
            what = f"{named} took no part" if missing else "the network failed"
            lost = LostColleagueError(
                f"rank {self.rank}",
                f"{what} in a sum over {self.world} workers, for {waited:.0f} s",
                "see to that node",
            )
            if self.rank == min(set(range(self.world)) - set(missing)):
                self.postman.tell("warned", f"{lost}")
            raise lost from error
