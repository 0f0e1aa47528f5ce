"""A hypothesis state machine that sends requests to an engine in any order of events: every request ends exactly once,
with the right status, and equals offline search. Subclasses add faults of the engine itself."""

import asyncio
import gc
import threading
import time
from collections import Counter
from collections.abc import Coroutine
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from interlinear.bundle import Bundle
from interlinear.generation.bundle_translator import BundleTranslator
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.models.model import Model
from interlinear.search import SearchOptions
from service.engine.admission import QueueLoad
from service.engine.dispatch import EngineError
from service.engine.engine import Engine
from service.models import ServedModel
from service.problems import Problem
from tests.service.conftest import sentences, until

TEXTS = list(dict.fromkeys(german for german, _ in sentences()))[:12]
OPTIONS = [
    SearchOptions(),
    SearchOptions(beam=1),
    SearchOptions(beam=3, n_best=3, length_penalty=0.6),
    SearchOptions(beam=2, max_length=4),
]
LIMITS = {"queue_texts": 12, "queue_tokens": 600}
SECONDS = 60  # a generous limit for a busy machine

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
class RecordingSubscriber:
    """A subscriber that records its events."""

    prefixes: dict[int, list[list[int]]] = field(default_factory=dict)
    answers: dict[int, GenerationResult] = field(default_factory=dict)
    begun: int = 0

    def on_accepted(self) -> None:
        self.begun += 1

    def on_prefix(self, index: int, ids: list[int]) -> None:
        assert index not in self.answers
        self.prefixes.setdefault(index, []).append(ids)

    def on_answer(self, index: int, answer: GenerationResult) -> None:
        assert index not in self.answers
        self.answers[index] = answer


@dataclass
class PendingRequest:
    """A pending request, and its allowed outcomes."""

    requests: list[Request]
    model: ServedModel
    future: "Future[list[GenerationResult]]"
    listener: RecordingSubscriber | None
    may: set[str]
    ends: Counter[str] = field(default_factory=Counter)


class Machine(RuleBasedStateMachine):
    two: list[Bundle[Model]]  # versions take turns
    engine: Engine
    served: ServedModel
    slots: int

    def begin(self, slots: int) -> None:
        """A new event loop for requests, without a model."""
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.version, self.slots = 0, slots
        self.asked: list[PendingRequest] = []
        self.old: list[ServedModel] = []

    def made(self) -> ServedModel:
        self.version += 1
        bundle = self.two[self.version % len(self.two)]
        return ServedModel("m", str(self.version), (), BundleTranslator(bundle, self.slots, 5))

    def bring(self, new: ServedModel) -> None:
        """Have the engine load a version."""
        self.engine.add(new)

    def usual(self) -> set[str]:
        """The possible outcomes of an undisturbed request."""
        return {"answered", "busy"}

    def equal(self, found: GenerationResult, expected: GenerationResult) -> None:
        """Fail if an answer differs from offline search."""
        raise NotImplementedError

    @rule(requests=asked, listens=st.booleans(), late=st.booleans())
    def ask(self, requests: list[Request], listens: bool, late: bool) -> None:
        """Also for a version that was selected before a swap."""
        model = self.old[-1] if late and self.old else self.served
        listener = RecordingSubscriber() if listens else None
        self.submit(model, requests, listener, self.usual())

    @rule(requests=asked, seconds=st.sampled_from([0.0, 0.001, 0.01, 0.05]))
    def ask_in_a_hurry(self, requests: list[Request], seconds: float) -> None:
        self.submit(self.served, requests, None, self.usual() | {"late"}, seconds)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def ask_again(self, data: st.DataObject) -> None:
        """Repeat an earlier request in any state; mostly one that is still running."""
        one = data.draw(st.sampled_from(self.asked[-3:]))
        self.submit(self.served, one.requests, None, self.usual())

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def change_ones_mind(self, data: st.DataObject) -> None:
        """Cancel a request, and repeat it after the cancellation took effect."""
        one = data.draw(st.sampled_from(self.asked[-3:]))
        one.may.add("cancelled")
        one.future.cancel()
        time.sleep(0.005)
        self.submit(self.served, one.requests, None, self.usual())

    def submit(
        self,
        model: ServedModel,
        requests: list[Request],
        listener: RecordingSubscriber | None,
        may: set[str],
        seconds: float = SECONDS,
    ) -> None:
        async def answers() -> list[GenerationResult]:
            async with asyncio.timeout(seconds):
                return await self.engine.search([(model, request) for request in requests], listener)

        one = PendingRequest(requests, model, self.run(answers()), listener, may)
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
        self.bring(new)
        self.served = new
        self.old.append(old)

    @precondition(lambda self: self.asked)
    @rule(data=st.data())
    def wait(self, data: st.DataObject) -> None:
        self.check(data.draw(st.sampled_from(self.asked)))

    def check(self, one: PendingRequest) -> None:
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
            end = {429: "busy", 503: "lost"}[problem.status]
        else:
            end = "answered"
            expected = [offline(one.model.translator.bundle, request) for request in one.requests]
            for found, answer in zip(answers, expected, strict=True):
                self.equal(found, answer)
        assert end in one.may
        until(lambda: one.ends["end"], SECONDS)  # a future wakes its waiters before it calls its callbacks
        assert one.ends["end"] == 1
        if one.listener and end == "answered":
            self.run(asyncio.sleep(0)).result(SECONDS)
            assert one.listener.begun == 1
            assert one.listener.answers == dict(enumerate(answers))
            for index, prefixes in one.listener.prefixes.items():
                final = answers[index].candidates[0].ids
                assert all(final[: len(ids)] == ids for ids in prefixes)
                assert [len(ids) for ids in prefixes] == sorted({len(ids) for ids in prefixes})

    def end(self) -> None:
        """All requests have ended, and only the served model remains in memory."""
        for one in self.asked:
            self.check(one)
        for one in self.asked:
            vars(one).clear()  # hypothesis keeps drawn values, which should not keep a model alive
        self.old.clear()
        until(lambda: collected() and list(self.engine._models) == [self.served], SECONDS)
        assert self.engine.admission.waiting == QueueLoad() and not self.engine.admission.by_caller
        assert not any(handle.sequences or handle.outstanding_cost for handle in self.engine.pool)
        assert not any(known.in_flight for known in self.engine._models.values())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(SECONDS)
        self.loop.close()


def collected() -> bool:
    """Collect garbage: a traceback keeps frames alive, in a reference cycle. Once is not enough: a task ends later
    than the future by which it was cancelled."""
    gc.collect()
    return True


KNOWN: dict[tuple[Path, torch.dtype, str, SearchOptions, bool], GenerationResult] = {}


def offline(bundle: Bundle[Model], request: Request) -> GenerationResult:
    """Offline search's output for a text alone."""
    text, dtype = request.texts["source"], next(bundle.model.parameters()).dtype
    key = bundle.folder, dtype, text, request.options, request.explain
    if key not in KNOWN:
        (answer,) = SequenceGenerator(bundle, width=5).generate(
            [Request({"source": text}, request.options, request.explain)]
        )
        assert isinstance(answer, GenerationResult)
        KNOWN[key] = answer
    return KNOWN[key]
