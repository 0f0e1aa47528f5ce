"""What a load on a service found: latencies, goodput, failures, versions; as records, which are also the JSON."""

import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field

from interlinear.loadtest.load_generator import Load, RequestRecord

MAX_GROWTH_SHARE = 0.05  # share of the requests by which those in flight may grow while a service keeps up
MAX_GROWTH = 5  # requests by which they may grow in any case


class ReportModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Latencies(ReportModel):
    """Milliseconds from when a request was due to its whole answer, over those that were answered rightly."""

    p50: float
    p90: float
    p99: float
    max: float


class Failure(ReportModel):
    """Requests that failed in one way."""

    problem: str = Field(description="the status and its name, or what broke")
    requests: int
    example: str = Field(description="what the service said of the first; empty where it said nothing")


class ModelVersionCount(ReportModel):
    """A model that answered."""

    model: str = Field(description="name@version")
    answers: int
    first: float = Field(description="seconds into the measured time at which the first and the last that it")
    last: float = Field(description="answered were due")


class RateResult(ReportModel):
    """What was found at one rate, of the requests that were due in the measured time."""

    rate: float = Field(description="requests a second that were asked for")
    requests: int = Field(description="that were due")
    answered: int = Field(description="rightly")
    failed: int
    answers_per_second: float = Field(description="that came within the measured time, whenever they were due")
    goodput: float = Field(description="right answers within the p99 limit, a second; all right ones without a limit")
    latency_ms: Latencies | None = Field(description="None where nothing was answered")
    kept_up: bool = Field(description="not many more were in flight at the end than at the beginning")
    held: bool = Field(description="nothing failed, p99 is within the limit, and it kept up")
    held_back: int = Field(description="requests that waited here, for so many were in flight already")
    late_ms_p99: float = Field(description="from due to sent: what this generator adds to a latency")
    failures: tuple[Failure, ...]
    versions: tuple[ModelVersionCount, ...]


class LoadReport(ReportModel):
    """A whole run: one rate, or several one after the other."""

    url: str
    texts: int = Field(description="different ones")
    seconds: float
    warm_up: float
    slo_p99_ms: float | None
    concurrency_limit: int
    seed: int
    date: str
    rates: tuple[RateResult, ...]
    knee: float | None = Field(description="the highest rate that was held, with all below; None where none was")


def summarize_rate(load: Load, records: Sequence[RequestRecord], limit_ms: float | None) -> RateResult:
    """What was found at one rate. `records` has the warm-up's too."""
    measured = [record for record in records if record.due >= 0]
    right = [record for record in measured if not record.problem]
    latencies = sorted(1000 * record.latency for record in right)
    within = [latency for latency in latencies if limit_ms is None or latency <= limit_ms]
    found = Latencies.model_validate(percentiles(latencies)) if latencies else None
    growth = in_flight(records, load.seconds) - in_flight(records, 0.0)
    kept_up = growth <= max(MAX_GROWTH, MAX_GROWTH_SHARE * len(measured))
    failed = len(measured) - len(right)
    slow = found is not None and limit_ms is not None and found.p99 > limit_ms
    in_time = [record for record in records if not record.problem and 0 <= record.due + record.latency < load.seconds]
    return RateResult(
        rate=load.rate,
        requests=len(measured),
        answered=len(right),
        failed=failed,
        answers_per_second=rounded(len(in_time) / load.seconds),
        goodput=rounded(len(within) / load.seconds),
        latency_ms=found,
        kept_up=kept_up,
        held=kept_up and not failed and not slow and found is not None,
        held_back=sum(record.held_back for record in measured),
        late_ms_p99=rounded(percentile(sorted(1000 * record.late for record in measured), 0.99)) if measured else 0.0,
        failures=failures(measured),
        versions=versions(right),
    )


def build_report(url: str, loads: Sequence[Load], rates: Sequence[RateResult], limit_ms: float | None) -> LoadReport:
    """The whole run; the loads differ in their rate alone."""
    load, knee = loads[0], None
    for one in sorted(rates, key=lambda one: one.rate):
        if not one.held:
            break
        knee = one.rate
    return LoadReport(
        url=url,
        texts=len(set(load.bodies)),
        seconds=load.seconds,
        warm_up=load.warm_up,
        slo_p99_ms=limit_ms,
        concurrency_limit=load.limit,
        seed=load.seed,
        date=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        rates=tuple(rates),
        knee=knee,
    )


def percentile(ranked: Sequence[float], share: float) -> float:
    """The smallest of the values, in order, that is no less than that share of them (the nearest rank)."""
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def percentiles(ranked: Sequence[float]) -> dict[str, float]:
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: rounded(percentile(ranked, share)) for name, share in shares.items()}


def in_flight(records: Sequence[RequestRecord], at: float) -> int:
    """Requests that were due and not over, so many seconds into the measured time."""
    return sum(record.due <= at < record.due + record.latency for record in records)


def failures(records: Sequence[RequestRecord]) -> tuple[Failure, ...]:
    """The ways in which requests failed, the most frequent first."""
    ways = Counter(record.problem for record in records if record.problem)
    examples = {record.problem: record.detail for record in reversed(records) if record.problem}
    return tuple(Failure(problem=way, requests=n, example=examples[way]) for way, n in ways.most_common())


def versions(records: Sequence[RequestRecord]) -> tuple[ModelVersionCount, ...]:
    """The models that answered, in the order in which they came."""
    due: dict[str, list[float]] = {}
    for record in records:
        due.setdefault(record.model, []).append(record.due)
    counts = [
        ModelVersionCount(model=model, answers=len(all_), first=rounded(min(all_)), last=rounded(max(all_)))
        for model, all_ in due.items()
    ]
    return tuple(sorted(counts, key=lambda one: one.first))


def rounded(value: float) -> float:
    return round(value, 3)
