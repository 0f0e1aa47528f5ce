"""The engine against any order of events, a fault in the search among them.

In float64, so that equal means equal, token for token.
"""

import gc
import logging
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from seq2seq.bundle import load
from seq2seq.generate import GenerationResult, Request
from service.engine.engine import Engine, EngineError
from service.engine.scheduler import SearchThread
from service.metrics import Metrics
from service.problems import Problem
from service.settings import Settings
from tests.service.engine_machine import LIMITS, OPTIONS, SECONDS, TEXTS, Machine
from tests.service.test_engine import until


class InThread(Machine):
    @initialize(slots=st.integers(1, 4))
    def start(self, slots: int) -> None:
        self.begin(slots)
        self.served = self.made()
        self.engine = Engine([self.served], Settings(threads=1, **LIMITS), Metrics())
        self.engine.start()

    @property
    def search(self) -> SearchThread:
        (handle,) = self.engine.pool
        assert isinstance(handle.worker, SearchThread)
        return handle.worker

    def equal(self, found: GenerationResult, expected: GenerationResult) -> None:
        assert [c.ids for c in found.candidates] == [c.ids for c in expected.candidates]
        assert found.candidates[0].text == expected.candidates[0].text
        assert found.explanation == expected.explanation

    @rule()
    def crash(self) -> None:
        """A fault in the search of the model that is served: whoever has a text in it is told so; it goes on after."""
        for one in self.asked:
            if one.model is self.served and not one.future.done():
                one.may.add("failed")
        number = self.engine._models[self.served].number
        until(lambda: number in self.search.schedulers, SECONDS)
        scheduler = self.search.schedulers[number]
        broken = scheduler.generation
        broken.scheduler.model = None  # as if a fault were in the model itself
        # Something of its own, so that the fault is met before the next rule, whoever meets it first.
        request = Request({"source": f"{TEXTS[0]} {self.version}"}, OPTIONS[1])

        def met() -> bool:
            """A queue that is full of other versions' texts keeps this one from the fault: it is sent again."""
            error = self.run(self.engine.search([(self.served, request)])).exception(SECONDS)
            assert error is None or isinstance(error, EngineError | Problem)
            return scheduler.generation is not broken

        until(met, SECONDS)

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        self.end()
        last = self.engine._models[self.served].number
        gc.collect()  # a traceback may hold what it passed, in a circle
        until(lambda: set(self.search.schedulers) == {last}, SECONDS)  # what nobody can ask for is let go
        self.engine.stop(SECONDS)
        assert not self.search.alive
        for scheduler in self.search.schedulers.values():
            assert not (
                scheduler.texts or scheduler.streamed or any(batch.generation.active for batch in scheduler.batches)
            )


@pytest.mark.timeout(300)
def test_every_request_ends_once_and_equals_offline_search(bundles, caplog):
    caplog.set_level(logging.CRITICAL)  # the log has the place of every crash
    loaded = [load(bundles.de_en), load(bundles.en_de)]
    InThread.two = [replace(bundle, model=bundle.model.double()) for bundle in loaded]
    limits = settings(max_examples=25, stateful_step_count=20, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(InThread, settings=limits)
