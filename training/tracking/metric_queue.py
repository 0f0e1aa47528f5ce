"""Queue of metrics for MLflow: sends them in the background, and keeps them while the store is unavailable.

Metrics that MLflow has not accepted are also written to a file in the run's folder, so that a resumed training can send
the metrics of a killed process. MLflow stores a point that is sent twice only once, by key, step, value and time.
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

from interlinear.errors import RegistryError, RegistryUnavailableError
from interlinear.registry.store import MlflowStore

T = TypeVar("T")

UNSENT_FILE = ".unsent.jsonl"  # in a run's folder
SEND_SECONDS = 2.0  # seconds between two batches of metrics
RETRY_SECONDS = 15.0  # seconds after a failed batch
# Points kept while the store is unavailable, enough for more than a day; then the oldest are dropped.
MAX_QUEUED = 1_000_000
BATCH_METRICS = 1000  # the largest batch that MLflow accepts
# seconds between samples of the machine's load; samples averaged to one point
SYSTEM_METRICS_SECONDS, SYSTEM_METRICS_SAMPLES = 5.0, 2


@dataclass(frozen=True)
class ScoredModel:
    """The logged model of a metric, and the data set that it was scored on, by name and digest."""

    model_id: str
    dataset_name: str
    dataset_digest: str


class MetricQueue(threading.Thread):
    """Sends metrics to MLflow in batches, in a thread; keeps metrics that are not accepted and sends them again."""

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
        """Add the metrics of a step; returns at once."""
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
        """Send all queued metrics. Raises RegistryError and keeps them where that fails; MLflow stores no point
        twice."""
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
        """Append points to the file. Each line starts with the line break, so that a line cut off by a kill corrupts no
        other."""
        with suppress(OSError), self.unsent.open("a", encoding="utf-8") as file:  # checkpoints report a full disk
            file.writelines(f"\n{json.dumps(point.to_dictionary())}" for point in points)

    def next_batch(self) -> list[Metric]:
        """The oldest queued metrics."""
        with self.lock:
            return list(islice(self.queued, BATCH_METRICS))

    def close(self, tags: dict[str, str], patience: float) -> None:
        """Send the remaining metrics and these tags; report how many points MLflow did not accept."""
        self.stopping.set()
        self.join()

        def send_rest() -> None:
            self.flush()
            with self.store.errors():
                self.store.client.log_batch(self.run_id, tags=run_tags(tags))

        try:
            retry_while_away(send_rest, patience, self.say)
        except RegistryError as error:
            consequence = "they are kept, and --resume offers them again"
            self.say(f"MLflow did not take {len(self.queued)} points of the curves ({consequence}): {error}")
        if self.dropped:
            self.say(f"MLflow was away for so long that the oldest {self.dropped} points of the curves are lost.")


def run_tags(tags: dict[str, str]) -> list[RunTag]:
    """Tags, cut to the length that MLflow accepts."""
    return [RunTag(key, value[:5000]) for key, value in tags.items()]


def read_unsent(unsent: Path) -> Iterator[Metric]:
    """The points that an earlier process did not send."""
    with suppress(OSError):
        for line in unsent.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):
                yield Metric.from_dictionary(json.loads(line))


class SystemMetrics(SystemMetricsMonitor):
    """MLflow's system metrics through the metric queue: MLflow's own loop ends when the store is unavailable once."""

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
    """Call `work`, and retry while the store is unavailable.

    Raises RegistryUnavailableError after `patience` seconds, and RegistryError at once for permanent errors.
    """
    deadline, warned = time.monotonic() + patience, False
    while True:
        try:
            return work()
        except RegistryUnavailableError as error:
            if time.monotonic() >= deadline:
                raise
            if not warned:
                warned = True
                say(f"MLflow does not answer; it is waited for, {patience:.0f} s at most. {error}")
            time.sleep(min(RETRY_SECONDS, max(0.0, deadline - time.monotonic())))
