"""What Prometheus reads. Labels are routes, statuses, model names and reasons: few, and never a caller's words."""

from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from seq2seq.errors import ImageProblem

REASONS = (  # why a request was not answered
    "queue_texts", "queue_tokens", "room_bytes",  # too much waits: texts, tokens x beam, bytes of bodies
    "no_key", "bad_key", "expired", "revoked", "scope", "quota", "rate",  # its key, or its caller has had enough
    "headers", "slow", "slow_body", "body", "http", "connections",  # as it arrived
    *(f"image_{kind}" for kind in get_args(ImageProblem)),  # what is wrong with its picture
    "stopping", "deadline", "gone",  # the service ends, its time was over, its caller has gone
    "engine",  # what searched it has ended, or none is up
)  # fmt: skip
LATENCY_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The service's own registry: two services in one process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.requests = Counter(
            "interlinear_requests", "HTTP requests answered", ["route", "method", "status"], registry=self.registry
        )
        self.request_seconds = Histogram(
            "interlinear_request_seconds",
            "From request to answer",
            ["route"],
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )
        self.rejected = Counter(
            "interlinear_rejected", "Requests refused or given up, by reason", ["reason"], registry=self.registry
        )
        for reason in REASONS:  # from the beginning, so that a first one is a rise that an alert can see
            self.rejected.labels(reason)
        self.texts = Counter("interlinear_texts", "Texts answered", ["model"], registry=self.registry)
        self.shared = Counter(
            "interlinear_shared_texts", "Texts answered by the search of an identical one", registry=self.registry
        )
        self.tokens = Counter(
            "interlinear_tokens", "Tokens read and written", ["model", "side"], registry=self.registry
        )
        self.queue_seconds = Histogram(
            "interlinear_queue_seconds",
            "From a text's arrival to its slot",
            ["model"],
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )
        self.search_seconds = Histogram(
            "interlinear_search_seconds",
            "From a text's slot to its answer",
            ["model"],
            buckets=LATENCY_BUCKETS,
            registry=self.registry,
        )
        self.image_seconds = Histogram(
            "interlinear_image_seconds", "To decode a picture", buckets=LATENCY_BUCKETS, registry=self.registry
        )
        self.held_bytes = Gauge(
            "interlinear_held_bytes", "Bytes of request bodies that are held", registry=self.registry
        )
        self.steps = Counter("interlinear_steps", "Decoding steps", ["engine", "model"], registry=self.registry)
        self.stepped_texts = Counter(
            "interlinear_stepped_texts",
            "Texts stepped, summed over steps: by steps, the batch",
            ["engine", "model"],
            registry=self.registry,
        )
        self.positions = Counter(
            "interlinear_stepped_positions",
            "Source positions stepped, summed over steps: of texts, and the padding beside them",
            ["engine", "model", "kind"],
            registry=self.registry,
        )
        self.slots = Gauge(
            "interlinear_slots", "Texts that can be searched at a time", ["engine", "model"], registry=self.registry
        )
        self.waiting = Gauge(
            "interlinear_waiting_texts", "Texts that wait for a slot", ["engine"], registry=self.registry
        )
        self.waiting_tokens = Gauge(
            "interlinear_waiting_tokens", "Tokens x beam that wait for a slot", ["engine"], registry=self.registry
        )
        self.preparing = Gauge(
            "interlinear_preparing_pieces",
            "Pieces of texts that wait to be prepared: their language detected, split, encoded",
            registry=self.registry,
        )
        self.searching = Gauge(
            "interlinear_searching_texts", "Texts in slots", ["engine", "model"], registry=self.registry
        )
        self.engine_up = Gauge("interlinear_engine_up", "1 while it searches", ["engine"], registry=self.registry)
        self.engine_restarts = Counter(
            "interlinear_engine_restarts", "Times that it was started again", ["engine"], registry=self.registry
        )
        self.engine_memory = Gauge(
            "interlinear_engine_resident_memory_bytes",
            "Of the process that it is in",
            ["engine"],
            registry=self.registry,
        )
        self.models = Gauge(
            "interlinear_model", "1 for every model served", ["model", "version"], registry=self.registry
        )

        self.swaps = Counter(
            "interlinear_swaps",
            "Other versions of a model loaded beside it: `done` put in its place, `failed` not",
            ["model", "outcome"],
            registry=self.registry,
        )
        self.cache = Gauge(
            "interlinear_cache_bytes",
            "Fetched bundles, links into a store on this machine left out",
            registry=self.registry,
        )
        self.evicted = Counter(
            "interlinear_cache_evicted", "Fetched bundles removed to make room", registry=self.registry
        )
        self.ready = Gauge("interlinear_ready", "1 while requests are searched", registry=self.registry)

    def render(self) -> bytes:
        return generate_latest(self.registry)
