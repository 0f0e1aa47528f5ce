"""Prometheus metrics. Labels are routes, statuses, model names and reasons: few values, and never a caller's text."""

from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from seq2seq.errors import ImageProblem

REASONS = (  # why a request was rejected or ended without a result
    "queue_texts", "queue_tokens", "room_bytes",  # overload: texts, tokens x beam, bytes of bodies
    "no_key", "bad_key", "expired", "revoked", "scope", "quota", "rate",  # authentication and rate limits
    "headers", "slow", "slow_body", "body", "http", "connections",  # invalid or slow HTTP
    *(f"image_{kind}" for kind in get_args(ImageProblem)),  # invalid images
    "stopping", "deadline", "gone",  # the service stops, a timeout, the caller disconnected
    "engine",  # a worker was lost, or none is up
)  # fmt: skip
LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics in a registry of their own, so that two services in one process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "interlinear_requests", "HTTP requests answered", ["route", "method", "status"], registry=self.registry
        )
        self.request_seconds = Histogram(
            "interlinear_request_seconds",
            "Time from request to response",
            ["route"],
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )
        self.rejected = Counter(
            "interlinear_rejected", "Requests rejected or abandoned, by reason", ["reason"], registry=self.registry
        )
        for reason in REASONS:  # created now, so that an alert sees a first one as an increase
            self.rejected.labels(reason)
        self.texts = Counter("interlinear_texts", "Texts answered", ["model"], registry=self.registry)
        self.shared = Counter(
            "interlinear_shared_texts", "Texts answered by the search of an identical text", registry=self.registry
        )
        self.tokens = Counter(
            "interlinear_tokens",
            "Source tokens read and target tokens written",
            ["model", "side"],
            registry=self.registry,
        )
        self.queue_seconds = Histogram(
            "interlinear_queue_seconds",
            "Time from a text's arrival to its slot",
            ["model"],
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )
        self.search_seconds = Histogram(
            "interlinear_search_seconds",
            "Time from a text's slot to its answer",
            ["model"],
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )
        self.image_seconds = Histogram(
            "interlinear_image_seconds", "Time to decode a picture", buckets=LATENCY_BUCKETS, registry=self.registry
        )
        self.held_bytes = Gauge(
            "interlinear_held_bytes", "Bytes of request bodies held in memory", registry=self.registry
        )
        self.steps = Counter("interlinear_steps", "Decoding steps", ["engine", "model"], registry=self.registry)
        self.stepped_texts = Counter(
            "interlinear_stepped_texts",
            "Texts stepped, summed over steps; divided by the steps, the mean batch size",
            ["engine", "model"],
            registry=self.registry,
        )
        self.positions = Counter(
            "interlinear_stepped_positions",
            "Source positions stepped, summed over steps, of texts and of padding",
            ["engine", "model", "kind"],
            registry=self.registry,
        )
        self.slots = Gauge(
            "interlinear_slots",
            "Texts that can be searched at the same time",
            ["engine", "model"],
            registry=self.registry,
        )
        self.waiting = Gauge(
            "interlinear_waiting_texts", "Texts that wait for a slot", ["engine"], registry=self.registry
        )
        self.waiting_tokens = Gauge(
            "interlinear_waiting_tokens", "Tokens x beam that wait for a slot", ["engine"], registry=self.registry
        )
        self.preparing = Gauge(
            "interlinear_preparing_pieces",
            "Chunks of texts that wait for preparation: language detection, segmentation, encoding",
            registry=self.registry,
        )
        self.searching = Gauge(
            "interlinear_searching_texts", "Texts in slots", ["engine", "model"], registry=self.registry
        )
        self.engine_up = Gauge(
            "interlinear_engine_up", "1 while the worker can search", ["engine"], registry=self.registry
        )
        self.engine_restarts = Counter(
            "interlinear_engine_restarts", "Restarts of the worker", ["engine"], registry=self.registry
        )
        self.engine_memory = Gauge(
            "interlinear_engine_resident_memory_bytes",
            "Resident memory of the process that the worker runs in",
            ["engine"],
            registry=self.registry,
        )
        self.models = Gauge(
            "interlinear_model", "1 for every model served", ["model", "version"], registry=self.registry
        )
        self.swaps = Counter(
            "interlinear_swaps",
            "Attempts to replace a model by another version: `done` or `failed`",
            ["model", "outcome"],
            registry=self.registry,
        )
        self.cache = Gauge(
            "interlinear_cache_bytes",
            "Bytes of fetched bundles, without links into a store on this machine",
            registry=self.registry,
        )
        self.evicted = Counter(
            "interlinear_cache_evicted", "Fetched bundles removed from the cache to free space", registry=self.registry
        )
        self.ready = Gauge("interlinear_ready", "1 while requests are searched", registry=self.registry)

    def render(self) -> bytes:
        return generate_latest(self.registry)
