"""The seconds that a training has left: by the updates of the last minute, and by the last evaluation on the dev set.

One report's updates are too few to tell: batches differ in size, and so would the estimates.
"""

from collections import deque

WINDOW = 60.0  # seconds of training that the estimate is made from


class RemainingTime:
    """Estimates the remaining time from a training's reports."""

    def __init__(self) -> None:
        self.dev_seconds = 0.0  # of the last evaluation on the dev set, with the checkpoint after it
        self._intervals: deque[tuple[float, int]] = deque()  # seconds and updates of reports, without evaluations

    def add(self, seconds: float, updates: int) -> None:
        """Count the updates of another interval, and drop the intervals before the last minute."""
        self._intervals.append((seconds, updates))
        while sum(seconds for seconds, _ in self._intervals) - self._intervals[0][0] >= WINDOW:
            self._intervals.popleft()

    def estimate(self, updates: int, evaluations: int) -> float:
        """The seconds for this many more updates and evaluations."""
        seconds, done = map(sum, zip(*self._intervals, strict=True))
        return updates * seconds / done + evaluations * self.dev_seconds
