"""Runs a load test: builds the load of each rate for a service's model, and measures the rates in turn."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from interlinear.loadtest.http_client import ANSWERS, TASKS, RequestSpec, headers, list_models, sample_requests
from interlinear.loadtest.load_generator import Load, RequestRecord, run_load
from interlinear.loadtest.load_report import RateResult, summarize_rate
from interlinear.loadtest.report_text import progress_line
from interlinear.progress import LiveLine
from seq2seq.errors import UsageError


@dataclass(frozen=True)
class LoadSchedule:
    """Requests a second, one rate after the other; seconds of warm-up and of measurement at each; the maximum number
    of requests in flight; and the seed of the first rate."""

    rates: Sequence[float]
    warm_up: float
    seconds: float
    limit: int
    seed: int


def build_loads(
    address: str, api_key: str | None, spec: RequestSpec, texts: Sequence[str], schedule: LoadSchedule
) -> list[Load]:
    """A load for every rate, with the texts or else built-in sentences, for the service's first model that fits.

    Raises UsageError if no model fits, ServiceError if the service does not answer.
    """
    chosen = spec.choose(asyncio.run(list_models(address, api_key)))
    path = TASKS[chosen.task]
    if texts or spec.translations:
        bodies = spec.request_bodies(chosen, texts)
    else:
        bodies = asyncio.run(sample_requests(address + path, api_key, spec, chosen))
    return [
        Load(
            address + path,
            bodies,
            headers(api_key),
            ANSWERS[path],
            rate,
            schedule.warm_up,
            schedule.seconds,
            schedule.limit,
            schedule.seed + i,
        )
        for i, rate in enumerate(schedule.rates)
    ]


async def run_loads(loads: Sequence[Load], limit_ms: float | None) -> list[tuple[list[RequestRecord], RateResult]]:
    """Measure the rates one after the other. Raises UsageError if no request falls into the measured time."""
    line, measured = LiveLine(), []

    def watch(load: Load, records: Sequence[RequestRecord], in_flight: int) -> None:
        line.show(progress_line(load, records, in_flight))

    for load in loads:
        records = await run_load(load, watch)
        line.clear()
        result = summarize_rate(load, records, limit_ms)
        if not result.requests:
            raise UsageError(
                f"--rate {load.rate:g}", f"no request was due within {load.seconds:g} s", "give a longer --duration"
            )
        measured.append((records, result))
    return measured
