"""The engine in a thread under any order of events, including a fault in the search.

Models are in float64, so that outputs can be compared token for token.
"""

import logging
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule, run_state_machine_as_test

from interlinear.bundle import load
from interlinear.generation.request import GenerationResult, Request
from service.engine.dispatch import EngineError
from service.engine.engine import Engine
from service.engine.search_thread import SearchThread
from service.metrics import Metrics
from service.problems import Problem
from service.settings import Settings
from tests.service.conftest import until
from tests.service.engine.engine_machine import LIMITS, OPTIONS, SECONDS, TEXTS, Machine, collected


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
        """A fault in the search of the served model: requests with a running text fail; the worker continues."""
        for one in self.asked:
            if one.model is self.served and not one.future.done():
                one.may.add("failed")
        number = self.engine._models[self.served].number
        until(lambda: number in self.search.schedulers, SECONDS)
        scheduler = self.search.schedulers[number]
        broken = scheduler.main_batch.translator
        broken.table.model = None  # simulates a fault in the model
        # A text of its own, so that this rule meets the fault before the next rule does.
        request = Request({"source": f"{TEXTS[0]} {self.version}"}, OPTIONS[1])

        def met() -> bool:
            """A queue full of other versions' texts may delay the fault: the text is sent again."""
            error = self.run(self.engine.search([(self.served, request)])).exception(SECONDS)
            assert error is None or isinstance(error, EngineError | Problem)
            return scheduler.main_batch.translator is not broken

        until(met, SECONDS)
        # The search has left the broken generation, and may not have said so yet: until then a text can be shared with
        # one that has failed.
        seen = self.search.heartbeats
        until(lambda: self.search.heartbeats > seen, SECONDS)

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        self.end()
        last = self.engine._models[self.served].number
        # Versions that cannot be requested are unloaded.
        until(lambda: collected() and set(self.search.schedulers) == {last}, SECONDS)
        self.engine.stop(SECONDS)
        assert not self.search.alive
        for scheduler in self.search.schedulers.values():
            assert not (
                scheduler.texts or scheduler.streamed or any(batch.translator.active for batch in scheduler.batches)
            )


@pytest.mark.timeout(300)
def test_every_request_ends_once_and_equals_offline_search(bundles, caplog):
    caplog.set_level(logging.CRITICAL)  # the log contains the traceback of every crash
    loaded = [load(bundles.de_en), load(bundles.en_de)]
    InThread.two = [replace(bundle, model=bundle.model.double()) for bundle in loaded]
    limits = settings(max_examples=10, stateful_step_count=20, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(InThread, settings=limits)
