"""The engine against any order of events: every request ends exactly once, as it must, and equals offline search.

In float64, so that equal means equal, token for token.
"""

import asyncio
import gc
import logging
import threading
import time
from collections import Counter
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from seq2seq.bundle import Bundle, load
from seq2seq.generation import Answer, Generation, Request
from seq2seq.model import Model
from seq2seq.search import SearchOptions
from service.engine import Engine, EngineError
from service.metrics import Metrics
from service.models import Served
from service.problems import Problem
from service.searching import SearchThread
from service.settings import Settings
from tests.service.conftest import sentences
from tests.service.test_engine import until

TEXTS = list(dict.fromkeys(german for german, _ in sentences()))[:12]
OPTIONS = [
    SearchOptions(),
    SearchOptions(beam=1),
    SearchOptions(beam=3, n_best=3, length_penalty=0.6),
    SearchOptions(beam=2, max_length=4),
]
SECONDS = 60  # within which everything happens, also on a busy machine

asked = st.lists(
    st.builds(
        Request,
        st.sampled_from(TEXTS).map(lambda text: {"source": text}),
        st.sampled_from(OPTIONS),
        explain=st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@dataclass
class Listener:
    """What a follower was told."""

    prefixes: dict[int, list[list[int]]] = field(default_factory=dict)
    answers: dict[int, Answer] = field(default_factory=dict)
    begun: int = 0

    def accepted(self) -> None:
        self.begun += 1

    def written(self, index: int, ids: list[int]) -> None:
        assert index not in self.answers
        self.prefixes.setdefault(index, []).append(ids)

    def answered(self, index: int, answer: Answer) -> None:
        assert index not in self.answers
        self.answers[index] = answer


@dataclass
class Asked:
    """A request on its way, and what may become of it."""

    requests: list[Request]
    model: Served
    future: "Future[list[Answer]]"
    listener: Listener | None
    may: set[str]
    ends: Counter[str] = field(default_factory=Counter)


class Machine(RuleBasedStateMachine):
    two: list[Bundle[Model]]  # versions take turns

    @initialize(slots=st.integers(1, 4))
    def start(self, slots: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.version, self.slots = 0, slots
        self.served = self.made()
        limits = Settings(threads=1, queue_texts=12, queue_tokens=600)
        self.engine = Engine([self.served], limits, Metrics())
        self.engine.start()
        self.asked: list[Asked] = []
        self.old: list[Served] = []

    @property
    def search(self) -> SearchThread:
        (lane,) = self.engine.lanes
        assert isinstance(lane.searcher, SearchThread)
        return lane.searcher

    def made(self) -> Served:
        self.version += 1
        bundle = self.two[self.version % len(self.two)]
        return Served("m", str(self.version), (), bundle, slots=self.slots, width=5)

    @rule(requests=asked, listens=st.booleans(), late=st.booleans())
    def ask(self, requests: list[Request], listens: bool, late: bool) -> None:
        """Also with a version that was chosen before a swap."""
        model = self.old[-1] if late and self.old else self.served
        listener = Listener() if listens else None
        self.submit(model, requests, listener, {"answered", "busy"})

    @rule(requests=asked, seconds=st.sampled_from([0.0, 0.001, 0.01, 0.05]))
    def ask_in_a_hurry(self, requests: list[Request], seconds: float) -> None:
        self.submit(self.served, requests, None, {"answered", "busy", "late"}, seconds)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def ask_again(self, data: st.DataObject) -> None:
        """What was asked before, whatever became of that; most often while it is on its way."""
        one = data.draw(st.sampled_from(self.asked[-3:]))
        self.submit(self.served, one.requests, None, {"answered", "busy"})

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def change_ones_mind(self, data: st.DataObject) -> None:
        """Cancelled, and when that has been seen, asked again."""
        one = data.draw(st.sampled_from(self.asked[-3:]))
        one.may.add("cancelled")
        one.future.cancel()
        time.sleep(0.005)
        self.submit(self.served, one.requests, None, {"answered", "busy"})

    def submit(
        self, model: Served, requests: list[Request], listener: Listener | None, may: set[str], seconds: float = SECONDS
    ) -> None:
        async def answers() -> list[Answer]:
            async with asyncio.timeout(seconds):
                return await self.engine.answers([(model, request) for request in requests], listener)

        one = Asked(requests, model, self.run(answers()), listener, may)
        one.future.add_done_callback(lambda _: one.ends.update(["end"]))
        self.asked.append(one)

    def run(self, work: Coroutine[Any, Any, Any]) -> "Future[Any]":
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.asked))
        one.may.add("cancelled")
        one.future.cancel()

    @rule()
    def swap(self) -> None:
        new, old = self.made(), self.served
        self.engine.add(new)
        self.served = new
        self.old.append(old)

    @rule()
    def crash(self) -> None:
        """A fault in the search of the model that is served: whoever has a text in it is told so; it goes on after."""
        for one in self.asked:
            if one.model is self.served and not one.future.done():
                one.may.add("failed")
        number = self.engine._known[self.served].number
        until(lambda: number in self.search.tables, SECONDS)
        table = self.search.tables[number]
        broken = table.generation
        broken.table.model = None  # as if a fault were in the model itself
        # Something of its own, so that the fault is met before the next rule, whoever meets it first.
        request = Request({"source": f"{TEXTS[0]} {self.version}"}, OPTIONS[1])
        met = self.run(self.engine.answers([(self.served, request)])).exception(SECONDS)
        assert met is None or isinstance(met, EngineError | Problem)
        until(lambda: table.generation is not broken, SECONDS)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def wait(self, data: st.DataObject) -> None:
        self.check(data.draw(st.sampled_from(self.asked)))

    def check(self, one: Asked) -> None:
        try:
            answers = one.future.result(SECONDS)
        except (CancelledError, asyncio.CancelledError):
            end = "cancelled"
        except TimeoutError:
            assert one.future.done(), "a request never ended"
            end = "late"
        except EngineError:
            end = "failed"
        except Problem as problem:
            assert problem.status == 429
            end = "busy"
        else:
            end = "answered"
            expected = [offline(one.model.bundle.folder, one.model.bundle, *key(request)) for request in one.requests]
            for found, answer in zip(answers, expected, strict=True):
                assert [c.ids for c in found.candidates] == [c.ids for c in answer.candidates]
                assert found.candidates[0].text == answer.candidates[0].text
                assert found.explanation == answer.explanation
        assert end in one.may
        assert one.ends["end"] == 1
        if one.listener and end == "answered":
            self.run(asyncio.sleep(0)).result(SECONDS)
            assert one.listener.begun == 1
            assert one.listener.answers == dict(enumerate(answers))
            for index, prefixes in one.listener.prefixes.items():
                final = answers[index].candidates[0].ids
                assert all(final[: len(ids)] == ids for ids in prefixes)
                assert [len(ids) for ids in prefixes] == sorted({len(ids) for ids in prefixes})

    def teardown(self) -> None:
        if not hasattr(self, "engine"):
            return
        for one in self.asked:
            self.check(one)
        for one in self.asked:
            vars(one).clear()  # hypothesis keeps what was drawn, which should not keep a model
        last = self.engine._known[self.served].number
        self.old.clear()
        gc.collect()  # errors hold what they came from
        until(lambda: set(self.search.tables) == {last}, SECONDS)  # what nobody can ask for is let go
        self.engine.stop(SECONDS)
        assert not self.search.alive
        assert self.engine._waiting_texts == self.engine._waiting_tokens == 0
        assert not any(lane.tickets or lane.load for lane in self.engine.lanes)
        assert not any(known.flying for known in self.engine._known.values())
        for table in self.search.tables.values():
            assert not (table.numbers or table.followed or table.generation.live)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(SECONDS)
        self.loop.close()


def key(request: Request) -> tuple[str, SearchOptions, bool]:
    return request.texts["source"], request.options, request.explain


KNOWN: dict[tuple[Path, str, SearchOptions, bool], Answer] = {}


def offline(folder: Path, bundle: Bundle[Model], text: str, options: SearchOptions, explain: bool) -> Answer:
    """What offline search answers to a text alone."""
    if (folder, text, options, explain) not in KNOWN:
        (answer,) = Generation(bundle, width=5).answers([Request({"source": text}, options, explain)])
        assert isinstance(answer, Answer)
        KNOWN[folder, text, options, explain] = answer
    return KNOWN[folder, text, options, explain]


@pytest.mark.timeout(300)
def test_every_request_ends_once_and_equals_offline_search(bundles, caplog):
    caplog.set_level(logging.CRITICAL)  # the log has the place of every crash
    loaded = [load(bundles.de_en), load(bundles.en_de)]
    Machine.two = [replace(bundle, model=bundle.model.double()) for bundle in loaded]
    limits = settings(max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(Machine, settings=limits)
