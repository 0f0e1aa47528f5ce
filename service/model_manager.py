"""Loads the models of the settings, and follows registry aliases by swapping in new versions while serving."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from interlinear.errors import InterlinearError, RegistryError, UnknownModelError, UsageError
from interlinear.registry.bundle_folder import LocalBundle
from interlinear.registry.cache import ModelCache
from interlinear.registry.names import AliasName, parse_model_name
from service.engine.engine import Engine
from service.logging import exception_location
from service.metrics import Metrics
from service.models import ReverseModel, ServedModel, ServedModels, check_replacement, explained_with, load_model
from service.settings import ServedModelConfig, Settings

if TYPE_CHECKING:
    from interlinear.registry.store import MlflowStore
    from interlinear.registry.store.records import RegisteredVersion

log = logging.getLogger("interlinear.service")

MAX_RETRY_DELAY = 600.0  # longest delay before loading a failed version is retried, in seconds
MAX_DOUBLINGS = 30  # maximum doublings of the delay: more would overflow a float
STOP_TIMEOUT = 2.0  # seconds that the service's shutdown waits for a load in progress

Status = Literal["current", "loading", "failed", "unchecked"]


@dataclass(frozen=True)
class SyncStatus:
    """Whether the served version is the one that the model's name refers to now; if not, why, and which version is."""

    status: Status = "current"
    error: str | None = None
    newer: str | None = None


@dataclass(eq=False)
class ModelSlot:
    """A model of the settings, and the version that is served for it."""

    config: ServedModelConfig
    served: ServedModel
    sync: SyncStatus = field(default_factory=SyncStatus)
    failures: int = 0  # consecutive failures of the newer version
    retry_at: float = 0.0  # time of the next attempt
    reverse_retry_at: float = 0.0  # time of the next attempt to replace its reverse model

    @property
    def alias(self) -> AliasName | None:
        return alias_of(self.config.uri)

    @property
    def reverse_alias(self) -> AliasName | None:
        return alias_of(self.config.reverse) if self.config.reverse else None


def is_served(registered: "RegisteredVersion", served: ServedModel | ReverseModel) -> bool:
    """Whether a version in the registry is the one that is served."""
    return (registered.version, registered.source) == (served.version, served.registered_source)


def alias_of(uri: str) -> AliasName | None:
    """The alias that a model is named by, if it is."""
    reference = parse_model_name(uri)
    return reference if isinstance(reference, AliasName) else None


def open_cache(settings: Settings, metrics: Metrics) -> ModelCache:
    """The cache for fetched bundles, within the settings' size limit; evictions are logged and counted."""

    def evicted(name: str, size: int) -> None:
        log.info("%s was removed from the cache to free %d bytes", name, size)
        metrics.evicted.inc()

    cache = ModelCache(settings.cache, settings.cache_bytes, evicted)

    def size() -> float:
        try:
            return cache.size()
        except OSError:  # an unreadable value must not hide the others
            return math.nan

    metrics.cache.set_function(size)
    return cache


def load_model_slots(settings: Settings, cache: ModelCache) -> list[ModelSlot]:
    """Load the models of the settings; from the cache if the registry is unavailable.

    Raises InterlinearError: a bundle is missing or damaged, or two models have the same name and version.
    """
    model_slots: list[ModelSlot] = []
    for config in settings.models:
        resolved = cache.resolve(config.uri, settings.tracking)
        if resolved.registry_error:
            log.warning("%s", resolved.registry_error)
        sync = SyncStatus("unchecked", resolved.registry_error) if resolved.registry_error else SyncStatus()
        reverse = resolve_reverse(config, settings, cache)
        model_slot = ModelSlot(config, load_model(config, resolved.bundle, settings, reverse), sync)
        for other in model_slots:
            same = str(model_slot.served) == str(other.served)
            if same and (model_slot.alias is None or model_slot.alias == other.alias):
                raise UsageError(
                    str(model_slot.served), "is served already", "give each model its own name: --model NAME=MODEL"
                )
        model_slots.append(model_slot)
    return model_slots


def resolve_reverse(config: ServedModelConfig, settings: Settings, cache: ModelCache) -> LocalBundle | None:
    """The bundle of a model's reverse model, if it has one; from the cache if the registry is unavailable. Raises
    InterlinearError."""
    if config.reverse is None:
        return None
    resolved = cache.resolve(config.reverse, settings.tracking)
    if resolved.registry_error:
        log.warning("%s", resolved.registry_error)
    return resolved.bundle


class ModelManager:
    """The models served now, in `models`, which is replaced atomically: later requests use the new models.

    A thread polls the registry for aliases. It loads another version beside the served one, warms it up in the
    engine, and then swaps it in on the event loop; the old version finishes the requests that it accepted.
    """

    def __init__(
        self, model_slots: Sequence[ModelSlot], engine: Engine, settings: Settings, metrics: Metrics, cache: ModelCache
    ) -> None:
        self.model_slots = list(model_slots)
        self.engine = engine
        self.settings = settings
        self.metrics = metrics
        self.cache = cache
        self._store: MlflowStore | None = None  # the store of the last poll, while it responds
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        for model_slot in self.model_slots:  # created now, so that an alert sees a first one as an increase
            for outcome in ("done", "failed"):
                metrics.swaps.labels(model_slot.served.name, outcome)
        self._publish()

    def start(self) -> None:
        """Follow the aliases from now on. Must be called on the event loop."""
        if any(model_slot.alias or model_slot.reverse_alias for model_slot in self.model_slots):
            loop = asyncio.get_running_loop()
            self._thread = threading.Thread(target=self._run, args=[loop], name="model manager", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread:
            self._thread.join(STOP_TIMEOUT)

    def sync_status(self, model: ServedModel) -> SyncStatus:
        return next(model_slot.sync for model_slot in self.model_slots if model_slot.served is model)

    def _publish(self) -> None:
        self.models = ServedModels([model_slot.served for model_slot in self.model_slots], self.settings.pivot)
        self.metrics.models.clear()
        for model in self.models.served:
            self.metrics.models.labels(model.name, model.version).set(1)

    # Methods of the manager's thread.

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        """No exception ends this thread."""
        while not self._stopping.wait(self.settings.poll_seconds):
            for model_slot in self.model_slots:
                try:
                    self._sync(model_slot, loop)
                except Exception as error:
                    name = str(model_slot.served)  # a log record must not keep a reference to a model
                    log.error("%s: its aliases cannot be followed: %s", name, exception_location(error))

    def _sync(self, model_slot: ModelSlot, loop: asyncio.AbstractEventLoop) -> None:
        if model_slot.alias and not self._stopping.is_set():
            self._sync_alias(model_slot, model_slot.alias, loop)
        if model_slot.reverse_alias and not self._stopping.is_set():
            self._sync_reverse(model_slot, model_slot.reverse_alias, loop)

    def _sync_alias(self, model_slot: ModelSlot, alias: AliasName, loop: asyncio.AbstractEventLoop) -> None:
        """Resolve an alias, and serve its version."""
        from interlinear.registry.store import MlflowStore

        name, version = model_slot.served.name, None
        try:
            store = self._store or MlflowStore(self.settings.tracking)
            self._store = None
            registered = store.alias_version(alias)
            version = registered.version
            self._store = store  # the store responds, so that the next call needs no connection check
            if is_served(registered, model_slot.served):
                if model_slot.sync.status == "unchecked":
                    self.cache.download_and_record(alias, store.find(alias), store)
                self._set_sync(model_slot, SyncStatus())
                model_slot.failures = 0
                return
            if version != model_slot.sync.newer:
                model_slot.failures, model_slot.retry_at = 0, 0.0
            if time.monotonic() < model_slot.retry_at:
                return
            model_slot.sync = SyncStatus("loading", newer=version)
            stored = store.find(alias)
            version = stored.version
            bundle = self.cache.download_and_record(alias, stored, store)
            reverse = resolve_reverse(model_slot.config, self.settings, self.cache)
            served = load_model(model_slot.config, bundle, self.settings, reverse)
            check_replacement(served, model_slot.served)
            self.engine.add(served)
        except Exception as error:
            if not isinstance(error, InterlinearError):
                log.error("%s cannot be loaded: %s", alias, exception_location(error))
            reason = str(error) if isinstance(error, InterlinearError) else f"{alias}: {type(error).__name__}."
            if version is None:
                unavailable = isinstance(error, RegistryError) and not isinstance(error, UnknownModelError)
                self._set_sync(model_slot, SyncStatus("unchecked" if unavailable else "failed", reason))
                return
            model_slot.failures += 1
            pause = min(self.settings.poll_seconds * 2 ** min(model_slot.failures, MAX_DOUBLINGS), MAX_RETRY_DELAY)
            model_slot.retry_at = time.monotonic() + pause
            self.metrics.swaps.labels(name, "failed").inc()
            self._set_sync(model_slot, SyncStatus("failed", reason, version))
        else:
            self._swap(model_slot, served, loop)

    def _sync_reverse(self, model_slot: ModelSlot, alias: AliasName, loop: asyncio.AbstractEventLoop) -> None:
        """Resolve the alias of a reverse model, and serve its version with the same model.

        The served one stays if this fails: then only explanations use the old version, and the log says so.
        """
        from interlinear.registry.store import MlflowStore

        if time.monotonic() < model_slot.reverse_retry_at:
            return
        served = model_slot.served
        assert served.reverse is not None
        try:
            store = self._store or MlflowStore(self.settings.tracking)
            self._store = None
            registered = store.alias_version(alias)
            self._store = store
            if is_served(registered, served.reverse):
                return
            bundle = self.cache.download_and_record(alias, store.find(alias), store)
            changed = explained_with(served, str(alias), bundle, self.settings)
            self.engine.add(changed)
        except Exception as error:
            reason = error if isinstance(error, InterlinearError) else exception_location(error)
            self.metrics.swaps.labels(served.name, "failed").inc()
            log.warning("%s: its reverse model %s stays: %s", str(served), str(served.reverse), reason)
            model_slot.reverse_retry_at = time.monotonic() + min(32 * self.settings.poll_seconds, MAX_RETRY_DELAY)
        else:
            self._swap(model_slot, changed, loop, model_slot.sync, model_slot.failures)

    def _set_sync(self, model_slot: ModelSlot, sync: SyncStatus) -> None:
        if sync != model_slot.sync and (sync.error or model_slot.sync.error):
            log.warning("%s: %s", str(model_slot.served), sync.error or "its alias is resolved again")
        model_slot.sync = sync

    def _swap(
        self,
        model_slot: ModelSlot,
        served: ServedModel,
        loop: asyncio.AbstractEventLoop,
        sync: SyncStatus = SyncStatus(),
        failures: int = 0,
    ) -> None:
        """Swap in the new version on the event loop, where requests choose their models. `sync` and `failures`: the
        model's from now on."""
        done = threading.Event()

        def swap() -> None:
            old, model_slot.served, model_slot.sync, model_slot.failures = model_slot.served, served, sync, failures
            self._publish()
            self.metrics.swaps.labels(served.name, "done").inc()
            # As text, because a log record must not keep a reference to a model.
            log.info("%s is served in place of %s", served.with_reverse, old.with_reverse)
            done.set()

        try:
            loop.call_soon_threadsafe(swap)
        except RuntimeError:  # the loop has ended
            return
        while not done.wait(0.1) and not self._stopping.is_set():
            pass
