"""Which version of every model is served: loaded at the start, and followed where an alias moves."""

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from registry.cache import Cache
from registry.names import AliasName, parse
from seq2seq.errors import CallError, InterlinearError, RegistryError, UnknownModelError
from service.engine.engine import Engine
from service.logging import place_of
from service.metrics import Metrics
from service.models import Models, Served, check_replaces, load_model
from service.settings import ModelPlace, Settings

if TYPE_CHECKING:
    from registry.store import Store

log = logging.getLogger("interlinear.service")

LONGEST_PAUSE = 600.0  # seconds before a version that could not be loaded is tried again, at most
PATIENCE = 2.0  # seconds that the end of the service waits for a load that is under way

Status = Literal["current", "loading", "failed", "unchecked"]


@dataclass(frozen=True)
class Standing:
    """Whether a model is what its name means now; if not, why, and which version is."""

    status: Status = "current"
    error: str | None = None
    newer: str | None = None


@dataclass(eq=False)
class Entry:
    """A place in the settings, and the version that is served for it."""

    place: ModelPlace
    served: Served
    standing: Standing = field(default_factory=Standing)
    failures: int = 0  # of the newer version, one after the other
    again: float = 0.0  # when it is tried again

    @property
    def alias(self) -> AliasName | None:
        reference = parse(self.place.place)
        return reference if isinstance(reference, AliasName) else None


def open_cache(settings: Settings, metrics: Metrics) -> Cache:
    """Where fetched bundles are kept, within the settings' limit; what has to go is logged and counted."""

    def evicted(name: str, size: int) -> None:
        log.info("%s was removed from the cache, to make room: %d bytes", name, size)
        metrics.evicted.inc()

    cache = Cache(settings.cache, settings.cache_bytes, evicted)
    metrics.cache.set_function(cache.size)
    return cache


def load_entries(settings: Settings, cache: Cache) -> list[Entry]:
    """Load what the settings name; where the registry is away, from the cache.

    Raises InterlinearError: a bundle missing or damaged, two models under one name and version.
    """
    entries: list[Entry] = []
    for place in settings.models:
        found = cache.locate(place.place, settings.tracking)
        if found.away:
            log.warning("%s", found.away)
        standing = Standing("unchecked", found.away) if found.away else Standing()
        entry = Entry(place, load_model(place, found.located, settings), standing)
        for other in entries:
            same = str(entry.served) == str(other.served)
            if same and (entry.alias is None or entry.alias == other.alias):
                raise CallError(
                    str(entry.served), "is served already", "give each model its own name: --model NAME=MODEL"
                )
        entries.append(entry)
    return entries


class Catalogue:
    """The models served now, `models`, which changes at once for all requests that come after.

    A thread of its own asks the registry what the aliases mean, loads another version beside the one that is served,
    has the engine warm it, and then has the event loop put it in its place; what the old one accepted, it finishes.
    """

    def __init__(
        self, entries: Sequence[Entry], engine: Engine, settings: Settings, metrics: Metrics, cache: Cache
    ) -> None:
        self.entries = list(entries)
        self.engine = engine
        self.settings = settings
        self.metrics = metrics
        self.cache = cache
        self._store: Store | None = None  # that of the last look, while it answers
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        for entry in self.entries:  # from the beginning, so that a first one is a rise that an alert can see
            for outcome in ("done", "failed"):
                metrics.swaps.labels(entry.served.name, outcome)
        self._show()

    def start(self) -> None:
        """Follow the aliases from now on; called on the event loop."""
        if any(entry.alias for entry in self.entries):
            loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._run, args=[loop], name="catalogue", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread:
            self._thread.join(PATIENCE)

    def standing(self, model: Served) -> Standing:
        return next(entry.standing for entry in self.entries if entry.served is model)

    def _show(self) -> None:
        self.models = Models([entry.served for entry in self.entries])
        self.metrics.models.clear()
        for model in self.models.served:
            self.metrics.models.labels(model.name, model.version).set(1)

    # The catalogue's thread.

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stopping.wait(self.settings.poll_seconds):
            for entry in self.entries:
                if entry.alias and not self._stopping.is_set():
                    self._follow(entry, entry.alias, loop)

    def _follow(self, entry: Entry, alias: AliasName, loop: asyncio.AbstractEventLoop) -> None:
        """Look what an alias means, and serve that."""
        from registry.store import Store

        name, version = entry.served.name, None
        try:
            store = self._store or Store(self.settings.tracking)
            self._store = None
            version = store.version_of(alias)
            self._store = store  # it answers: what it is asked next needs no look whether it does
            if version == entry.served.version:
                if entry.standing.status == "unchecked":
                    self.cache.take(alias, store.find(alias), store)
                self._stand(entry, Standing())
                entry.failures = 0
                return
            if version != entry.standing.newer:
                entry.failures, entry.again = 0, 0.0
            if time.monotonic() < entry.again:
                return
            entry.standing = Standing("loading", newer=version)
            kept = store.find(alias)
            version = kept.version
            located = self.cache.take(alias, kept, store)
            served = load_model(entry.place, located, self.settings)
            check_replaces(served, entry.served)
            self.engine.add(served)
        except Exception as error:
            if not isinstance(error, InterlinearError):
                log.error("%s cannot be loaded: %s", alias, place_of(error))
            said = str(error) if isinstance(error, InterlinearError) else f"{alias}: {type(error).__name__}."
            if version is None:
                away = isinstance(error, RegistryError) and not isinstance(error, UnknownModelError)
                self._stand(entry, Standing("unchecked" if away else "failed", said))
                return
            entry.failures += 1
            pause = min(self.settings.poll_seconds * 2**entry.failures, LONGEST_PAUSE)
            entry.again = time.monotonic() + pause
            self.metrics.swaps.labels(name, "failed").inc()
            self._stand(entry, Standing("failed", said, version))
        else:
            self._swap(entry, served, loop)

    def _stand(self, entry: Entry, standing: Standing) -> None:
        if standing != entry.standing and (standing.error or entry.standing.error):
            log.warning("%s: %s", str(entry.served), standing.error or "what its name means is known again")
        entry.standing = standing

    def _swap(self, entry: Entry, served: Served, loop: asyncio.AbstractEventLoop) -> None:
        """Let the event loop, where requests choose their models, put the new version in its place."""
        done = threading.Event()

        def flip() -> None:
            old, entry.served, entry.standing, entry.failures = entry.served, served, Standing(), 0
            self._show()
            self.metrics.swaps.labels(served.name, "done").inc()
            log.info("%s is served in place of %s", str(served), str(old))  # a record must not hold on to a model
            done.set()

        try:
            loop.call_soon_threadsafe(flip)
        except RuntimeError:  # the loop has ended
            return
        while not done.wait(0.1) and not self._stopping.is_set():
            pass
