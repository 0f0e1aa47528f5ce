"""Times of optimizer steps, measured in the same way for every trainer that uses torch."""

import time
from typing import Any

from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

WINDOW = 10  # steps
WARM_UP = 10  # steps that no window includes


class Stopwatch:
    """Records the time after every optimizer step of this process; data loading and everything else is included."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.parameters = 0
        self._hook = register_optimizer_step_post_hook(self.note)

    def note(self, optimizer: Optimizer, _args: Any, _kwargs: Any) -> None:
        self.times.append(time.perf_counter())
        self.parameters = sum(p.numel() for group in optimizer.param_groups for p in group["params"])

    def windows(self) -> list[float]:
        """Seconds a step, in overlapping windows of ten steps."""
        return windows(self.times)


def windows(times: list[float]) -> list[float]:
    """Seconds a step in windows of ten steps, one beginning every five, after the warm-up."""
    return [(times[i + WINDOW] - times[i]) / WINDOW for i in range(WARM_UP, len(times) - WINDOW, WINDOW // 2)]
