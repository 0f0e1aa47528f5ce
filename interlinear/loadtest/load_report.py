"""Report of a load test: latencies, goodput, failures and model versions, as pydantic models that are also the JSON."""

import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field

from interlinear.loadtest.load_generator import Load, RequestRecord

MAX_GROWTH_SHARE = 0.05  # growth of requests in flight, as a share of all requests, up to which a service keeps up
MAX_GROWTH = 5  # growth that is always allowed, in requests


class ReportModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Latencies(ReportModel):
    """Milliseconds from a request's due time to its complete answer, over valid answers."""

    p50: float
    p90: float
    p99: float
    max: float


class Failure(ReportModel):
    """Requests that failed in the same way."""

    problem: str = Field(description="HTTP status and its name, or the error")
    requests: int
    example: str = Field(description="the service's message for the first of them; may be empty")


class ModelVersionCount(ReportModel):
    """A model version that answered requests."""

    model: str = Field(description="name@version")
    answers: int
    first: float = Field(description="due time of the first request that it answered, in seconds")
    last: float = Field(description="due time of the last request that it answered, in seconds")


class RateResult(ReportModel):
    """Results at one rate, over the requests that were due in the measured time."""

    rate: float = Field(description="requested rate, in requests a second")
    requests: int = Field(description="requests that were due")
    answered: int = Field(description="requests with a valid answer")
    failed: int
    answers_per_second: float = Field(
        description="answers received within the measured time, regardless of their due time"
    )
    goodput: float = Field(
        description="valid answers a second within the p99 limit; without a limit, all valid answers"
    )
    latency_ms: Latencies | None = Field(description="None if nothing was answered")
    kept_up: bool = Field(description="requests in flight did not grow much from beginning to end")
    held: bool = Field(description="no request failed, p99 is within the limit, and the service kept up")
    held_back: int = Field(description="requests that waited in the generator because the limit was in flight")
    late_ms_p99: float = Field(description="p99 of the delay from due to sent, which is part of the latency")
    failures: tuple[Failure, ...]
    versions: tuple[ModelVersionCount, ...]


class LoadReport(ReportModel):
    """Results of a whole run at one or several rates."""

    url: str
    texts: int = Field(description="number of different texts")
    seconds: float
    warm_up: float
    slo_p99_ms: float | None
    concurrency_limit: int
    seed: int
    date: str
    rates: tuple[RateResult, ...]
    knee: float | None = Field(description="the highest rate up to which all rates were held; None if there is none")


def summarize_rate(load: Load, records: Sequence[RequestRecord], limit_ms: float | None) -> RateResult:
    """Results at one rate. `records` includes the warm-up."""
    measured = [record for record in records if record.due >= 0]
    valid = [record for record in measured if not record.problem]
    latencies = sorted(1000 * record.latency for record in valid)
    in_limit = [latency for latency in latencies if limit_ms is None or latency <= limit_ms]
    percentile_values = Latencies.model_validate(percentiles(latencies)) if latencies else None
    growth = in_flight(records, load.seconds) - in_flight(records, 0.0)
    kept_up = growth <= max(MAX_GROWTH, MAX_GROWTH_SHARE * len(measured))
    failed = len(measured) - len(valid)
    slow = percentile_values is not None and limit_ms is not None and percentile_values.p99 > limit_ms
    in_time = [record for record in records if not record.problem and 0 <= record.due + record.latency < load.seconds]
    return RateResult(
        rate=load.rate,
        requests=len(measured),
        answered=len(valid),
        failed=failed,
        answers_per_second=rounded(len(in_time) / load.seconds),
        goodput=rounded(len(in_limit) / load.seconds),
        latency_ms=percentile_values,
        kept_up=kept_up,
        held=kept_up and not failed and not slow and percentile_values is not None,
        held_back=sum(record.held_back for record in measured),
        late_ms_p99=rounded(percentile(sorted(1000 * record.late for record in measured), 0.99)) if measured else 0.0,
        failures=failures(measured),
        versions=versions(valid),
    )


def build_report(loads: Sequence[Load], rates: Sequence[RateResult], limit_ms: float | None) -> LoadReport:
    """The report of all rates; the loads differ only in their rate."""
    load, knee = loads[0], None
    for result in sorted(rates, key=lambda result: result.rate):
        if not result.held:
            break
        knee = result.rate
    return LoadReport(
        url=load.url,
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
    """The nearest-rank percentile: the smallest value that is not less than this share of the sorted values."""
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def percentiles(ranked: Sequence[float]) -> dict[str, float]:
    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {name: rounded(percentile(ranked, share)) for name, share in shares.items()}


def in_flight(records: Sequence[RequestRecord], time: float) -> int:
    """Number of requests that were due and unanswered at this time, in seconds of the measured time."""
    return sum(record.due <= time < record.due + record.latency for record in records)


def failures(records: Sequence[RequestRecord]) -> tuple[Failure, ...]:
    """The kinds of failures, the most frequent first."""
    problems = Counter(record.problem for record in records if record.problem)
    examples = {record.problem: record.detail for record in reversed(records) if record.problem}
    return tuple(
        Failure(problem=problem, requests=n, example=examples[problem]) for problem, n in problems.most_common()
    )


def versions(records: Sequence[RequestRecord]) -> tuple[ModelVersionCount, ...]:
    """The model versions that answered, in order of their first answer."""
    due: dict[str, list[float]] = {}
    for record in records:
        due.setdefault(record.model, []).append(record.due)
    counts = [
        ModelVersionCount(model=model, answers=len(all_), first=rounded(min(all_)), last=rounded(max(all_)))
        for model, all_ in due.items()
    ]
    return tuple(sorted(counts, key=lambda count: count.first))


def rounded(value: float) -> float:
    return round(value, 3)
