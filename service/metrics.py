"""Prometheus metrics. Labels are routes, statuses, model names and reasons: few values, and never a caller's text."""

from functools import partial
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from interlinear.errors import ImageProblem

REASONS = (  # why a request was rejected or ended without a result
    "queue_texts", "queue_tokens", "room_bytes",  # overload: texts, tokens x beam, bytes of bodies
    "no_key", "bad_key", "expired", "revoked", "scope", "quota", "rate",  # authentication and rate limits
    "headers", "slow", "slow_body", "body", "http", "connections",  # invalid or slow HTTP
    *(f"image_{kind}" for kind in get_args(ImageProblem)),  # invalid images
    "stopping", "deadline", "gone",  # the service stops, a timeout, the caller disconnected
    "engine",  # a worker was lost, or none is up
    "files",  # no room for a document
)  # fmt: skip
LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics in a registry of their own, so that two services in one process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, buckets=LATENCY_BUCKETS, registry=self.registry)
        self.requests = counter("interlinear_requests", "HTTP requests answered", ["route", "method", "status"])
        self.request_seconds = histogram("interlinear_request_seconds", "Time from request to response", ["route"])
        self.rejected = counter("interlinear_rejected", "Requests rejected or abandoned, by reason", ["reason"])
        for reason in REASONS:  # created now, so that an alert sees a first one as an increase
            self.rejected.labels(reason)
        self.texts = counter("interlinear_texts", "Texts answered", ["model"])
        self.shared = counter("interlinear_shared_texts", "Texts answered by the search of an identical text")
        self.tokens = counter("interlinear_tokens", "Source tokens read and target tokens written", ["model", "side"])
        self.queue_seconds = histogram("interlinear_queue_seconds", "Time from a text's arrival to its slot", ["model"])
        self.search_seconds = histogram(
            "interlinear_search_seconds", "Time from a text's slot to its answer", ["model"]
        )
        self.reverse_explanations = counter(
            "interlinear_reverse_explanations",
            "Explanations of models with a reverse model, by the directions of their links: `both`, or `one` where the "
            "reverse model cannot read the pair",
            ["model", "directions"],
        )
        self.image_seconds = histogram("interlinear_image_seconds", "Time to decode an image")
        self.held_bytes = gauge("interlinear_held_bytes", "Bytes of request bodies held in memory")
        self.steps = counter("interlinear_steps", "Decoding steps", ["engine", "model"])
        self.stepped_texts = counter(
            "interlinear_stepped_texts",
            "Texts stepped, summed over steps; divided by the steps, the mean batch size",
            ["engine", "model"],
        )
        self.positions = counter(
            "interlinear_stepped_positions",
            "Source positions stepped, summed over steps, of texts and of padding",
            ["engine", "model", "kind"],
        )
        self.slots = gauge("interlinear_slots", "Texts that can be searched at the same time", ["engine", "model"])
        self.waiting = gauge("interlinear_waiting_texts", "Texts that wait for a slot", ["engine"])
        self.waiting_tokens = gauge("interlinear_waiting_tokens", "Tokens x beam that wait for a slot", ["engine"])
        self.preparing = gauge(
            "interlinear_preparing_pieces",
            "Chunks of texts that wait for preparation: language detection, segmentation, encoding",
        )
        self.searching = gauge("interlinear_searching_texts", "Texts in slots", ["engine", "model"])
        self.engine_up = gauge("interlinear_engine_up", "1 while the worker can search", ["engine"])
        self.engine_restarts = counter("interlinear_engine_restarts", "Restarts of the worker", ["engine"])
        self.engine_memory = gauge(
            "interlinear_engine_resident_memory_bytes",
            "Resident memory of the process that the worker runs in",
            ["engine"],
        )
        self.models = gauge("interlinear_model", "1 for every model served", ["model", "version"])
        self.swaps = counter(
            "interlinear_swaps",
            "Attempts to replace a model by another version: `done` or `failed`",
            ["model", "outcome"],
        )
        self.cache = gauge(
            "interlinear_cache_bytes", "Bytes of fetched bundles, without links into a store on this machine"
        )
        self.evicted = counter("interlinear_cache_evicted", "Fetched bundles removed from the cache to free space")
        self.file_jobs = gauge("interlinear_file_jobs", "Documents that wait, or are translated", ["status"])
        self.ended_file_jobs = counter(
            "interlinear_ended_file_jobs", "Documents by outcome: `done`, `failed`, `cancelled`", ["status"]
        )
        for outcome in ("done", "failed", "cancelled"):
            self.ended_file_jobs.labels(outcome)
        self.file_bytes = gauge("interlinear_file_bytes", "Bytes of the documents kept on disk")
        self.ready = gauge("interlinear_ready", "1 while requests are searched")

    def render(self) -> bytes:
        return generate_latest(self.registry)
