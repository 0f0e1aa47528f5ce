"""Engines in processes under any order of events, including killed and hanging processes.

Models are in float32, as processes load them: results in another batch may be rounded differently, and of two answers
within rounding of each other either is right.
"""

import logging
import os
import signal
import threading

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from interlinear.bundle import load
from interlinear.generation.request import GenerationResult
from service.engine import pool
from service.engine.engine import Engine
from service.engine.pool import WorkerHandle
from service.engine.protocol import WorkerLostError
from service.metrics import Metrics
from service.models import ServedModel
from service.settings import Settings
from tests.service.conftest import Bundles, until
from tests.service.engine.engine_machine import LIMITS, Machine
from tests.service.engine.test_processes import SECONDS, processes, response_values

HANG = 4  # seconds of silence after which a process counts as hanging
TIE = 1e-5  # between scores


class InProcesses(Machine):
    """All examples share one engine, because its processes take seconds to start."""

    losses = 0

    @initialize(slots=st.integers(1, 4))
    def start(self, slots: int) -> None:
        self.begin(slots)
        self.served = self.made()
        self.bring(self.served)

    def bring(self, new: ServedModel) -> None:
        until(lambda: any(handle.up for handle in self.engine.pool), SECONDS)
        super().bring(new)

    def usual(self) -> set[str]:
        return super().usual() | (set() if any(handle.available for handle in self.engine.pool) else {"lost"})

    def equal(self, found: GenerationResult, expected: GenerationResult) -> None:
        for one, other in zip(found.candidates, expected.candidates, strict=True):
            assert one.ids == other.ids or one.score == pytest.approx(other.score, abs=TIE)
        if found.candidates[0].ids == expected.candidates[0].ids:
            assert found.candidates[0].text == expected.candidates[0].text
            values = (
                list(response_values(one.explanation and one.explanation.model_dump())) for one in (found, expected)
            )
            for one, other in zip(*values, strict=True):
                assert one == (pytest.approx(other, abs=2e-4) if isinstance(other, float) else other)

    @rule(which=st.integers(0, 1), how=st.sampled_from([signal.SIGKILL, signal.SIGSTOP]))
    def lose(self, which: int, how: signal.Signals) -> None:
        """Kill or stop a process; its running texts are lost."""
        handle = self.running_worker(which)
        self.strike(handle, how)

    @rule(which=st.integers(0, 1))
    def lose_one_that_loads(self, which: int) -> None:
        """If no other process is up, no version can be loaded, and the old one stays."""
        handle = self.running_worker(which)
        new, failed = self.made(), []

        def load_it() -> None:
            try:
                self.engine.add(new)
            except WorkerLostError as error:
                failed.append(error)

        loading = threading.Thread(target=load_it)
        loading.start()
        self.strike(handle, signal.SIGKILL)
        loading.join(SECONDS)
        assert not loading.is_alive()
        if not failed:
            self.old.append(self.served)
            self.served = new

    def running_worker(self, which: int) -> WorkerHandle:
        """An engine worker, once it is up."""
        handle = list(self.engine.pool)[which]
        until(lambda: handle.available, SECONDS)
        return handle

    def strike(self, handle: WorkerHandle, how: signal.Signals) -> None:
        worker = handle.worker
        for one in self.asked:
            if not one.future.done():
                one.may.add("lost")
        type(self).losses += 1
        os.kill(worker.pid, how)
        until(lambda: handle.worker is not worker or not handle.up, SECONDS)

    def teardown(self) -> None:
        if not hasattr(self, "served"):
            return
        self.end()
        last = self.engine._models[self.served].number
        for handle in self.engine.pool:  # versions that cannot be requested are unloaded, and not loaded again
            until(lambda handle=handle: not handle.up or set(handle.models) == {last}, SECONDS)
        del self.served


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes are restarted at once, however soon after the last restart."""
    monkeypatch.setattr(pool, "STABLE_SECONDS", 0.0)


def run(bundles: Bundles, examples: int, steps: int) -> None:
    InProcesses.two = [load(bundles.de_en), load(bundles.en_de)]
    InProcesses.losses = 0
    metrics = Metrics()
    InProcesses.engine = Engine([], Settings(device="cpu,cpu", threads=1, hang_seconds=HANG, **LIMITS), metrics)
    InProcesses.engine.start()
    limits = settings(max_examples=examples, stateful_step_count=steps, suppress_health_check=list(HealthCheck))
    try:
        run_state_machine_as_test(InProcesses, settings=limits)
        both = list(InProcesses.engine.pool)
        until(lambda: all(handle.available for handle in both), SECONDS)
        assert sum(handle.restarts for handle in both) == InProcesses.losses
    finally:
        InProcesses.engine.stop(SECONDS)
    assert not processes()


@pytest.mark.timeout(300)
def test_every_request_ends_once_and_equals_offline_search(bundles, caplog):
    caplog.set_level(logging.CRITICAL)  # the log contains every loss
    run(bundles, examples=1, steps=8)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_longer_run_of_the_same(bundles, caplog):
    caplog.set_level(logging.CRITICAL)
    run(bundles, examples=12, steps=16)
