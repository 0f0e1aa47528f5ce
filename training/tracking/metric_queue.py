"""Metrics on their way to MLflow: handed over beside the training, and kept for a store that is away.

What MLflow has not taken stands in a file of the run's folder too, so that a process which is killed with it leaves it
to the one that goes on. A point that is offered twice MLflow takes once: it is known by its key, step, value and time.
"""

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import TypeVar

from mlflow.entities import Metric, RunTag
from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

from registry.store import MlflowStore
from seq2seq.errors import RegistryError, RegistryUnavailableError

T = TypeVar("T")

UNSENT_FILE = ".unsent.jsonl"  # in a run's folder
SEND_SECONDS = 2.0  # between two batches of metrics
RETRY_SECONDS = 15.0  # after one that MLflow did not take
MAX_QUEUED = 1_000_000  # points that are kept for a store that is away: a day and more of them; then the oldest go
BATCH_METRICS = 1000  # metrics that MLflow takes at once
SYSTEM_METRICS_SECONDS, SYSTEM_METRICS_SAMPLES = 5.0, 2  # looks at the machine; so many make a point of its curves


@dataclass(frozen=True)
class ScoredModel:
    """Which logged model a metric is of, and of what it says on which data: by name and digest."""

    model_id: str
    dataset_name: str
    dataset_digest: str


class MetricQueue(threading.Thread):
    """Hands metrics to MLflow beside the training, in batches; keeps what is not taken, and offers it again."""

    def __init__(self, store: MlflowStore, run_id: str, say: Callable[[str], None], run: Path) -> None:
        """`run`: the run's folder."""
        super().__init__(daemon=True)
        self.store, self.run_id, self.say = store, run_id, say
        self.unsent = run / UNSENT_FILE
        self.queued = deque(read_unsent(self.unsent))
        self.dropped = 0
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.warned = False

    def add(self, step: int, values: dict[str, float], of: ScoredModel | None = None) -> None:
        """Metrics of a step; returns at once."""
        now = int(time.time() * 1000)
        points = [Metric(key, value, now, step, **(asdict(of) if of else {})) for key, value in values.items()]
        with self.lock:
            self.queued += points
            self.write_unsent(points)
            while len(self.queued) > MAX_QUEUED:
                self.queued.popleft()
                self.dropped += 1

    def run(self) -> None:
        pause = SEND_SECONDS
        while not self.stopping.wait(pause):
            try:
                self.flush()
                pause = SEND_SECONDS
            except RegistryError as error:
                pause = RETRY_SECONDS
                if not self.warned:
                    self.warned = True
                    self.say(f"MLflow does not answer; the training goes on, and its curves are kept. {error}")

    def flush(self) -> None:
        """Hand over what waits. Raises RegistryError, with all of it still waiting; MLflow takes no point twice."""
        while batch := self.next_batch():
            with self.store.errors():
                self.store.client.log_batch(self.run_id, metrics=batch)
            accepted = set(map(id, batch))
            with self.lock:
                while self.queued and id(self.queued[0]) in accepted:
                    self.queued.popleft()
                if not self.queued:
                    self.unsent.unlink(missing_ok=True)

    def write_unsent(self, points: Sequence[Metric]) -> None:
        """Write them down. Each line begins with its end, so that one which a kill has cut off spoils no other."""
        with suppress(OSError), self.unsent.open("a", encoding="utf-8") as file:  # of a full disk the checkpoints speak
            file.writelines(f"\n{json.dumps(point.to_dictionary())}" for point in points)

    def next_batch(self) -> list[Metric]:
        """The oldest that wait."""
        with self.lock:
            return list(islice(self.queued, BATCH_METRICS))

    def close(self, tags: dict[str, str], patience: float) -> None:
        """Hand over what is left, and tags; say how much MLflow did not take."""
        self.stopping.set()
        self.join()

        def rest() -> None:
            self.flush()
            with self.store.errors():
                self.store.client.log_batch(self.run_id, tags=run_tags(tags))

        try:
            retry_while_away(rest, patience, self.say)
        except RegistryError as error:
            kept = "they are kept, and --resume offers them again"
            self.say(f"MLflow did not take {len(self.queued)} points of the curves ({kept}): {error}")
        if self.dropped:
            self.say(f"MLflow was away for so long that the oldest {self.dropped} points of the curves are lost.")


def run_tags(tags: dict[str, str]) -> list[RunTag]:
    """Tags, none longer than MLflow takes."""
    return [RunTag(key, value[:5000]) for key, value in tags.items()]


def read_unsent(unsent: Path) -> Iterator[Metric]:
    """The points that an earlier process has left."""
    with suppress(OSError):
        for line in unsent.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):
                yield Metric.from_dictionary(json.loads(line))


class SystemMetrics(SystemMetricsMonitor):
    """MLflow's looks at the machine, handed to the sender: MLflow's own loop ends when the store is away once."""

    def __init__(self, metrics_queue: MetricQueue, resumed: bool) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            metrics_queue.run_id,
            SYSTEM_METRICS_SECONDS,
            SYSTEM_METRICS_SAMPLES,
            resume_logging=resumed,
            tracking_uri=metrics_queue.store.uri,
        )
        self.metrics_queue = metrics_queue

    def monitor(self) -> None:
        while True:
            for _ in range(self.samples_before_logging):
                self.collect_metrics()  # type: ignore[no-untyped-call]
                if self._shutdown_event.wait(self.sampling_interval):
                    return
            self.publish_metrics(self.aggregate_metrics())  # type: ignore[no-untyped-call]

    def publish_metrics(self, metrics: dict[str, float]) -> None:
        self.metrics_queue.add(
            self._logging_step, {f"{self._metrics_prefix}{key}": value for key, value in metrics.items()}
        )
        self._logging_step += 1
        for monitor in self.monitors:
            monitor.clear_metrics()  # type: ignore[no-untyped-call]


def retry_while_away(work: Callable[[], T], patience: float, say: Callable[[str], None]) -> T:
    """Do what needs a store, again and again while the store is away.

    Raises RegistryAwayError after `patience` seconds, and at once RegistryError for what will not be otherwise.
    """
    until, warned = time.monotonic() + patience, False
    while True:
        try:
            return work()
        except RegistryUnavailableError as away:
            if time.monotonic() >= until:
                raise
            if not warned:
                warned = True
                say(f"MLflow does not answer; it is waited for, {patience:.0f} s at most. {away}")
            time.sleep(min(RETRY_SECONDS, max(0.0, until - time.monotonic())))
