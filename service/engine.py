"""The engine: one thread that steps every model's search, fed by requests from the event loop.

Texts that wait enter a model's table whenever it has free slots, whoever sent them, and are searched together; a text
that is finished, cancelled or out of time leaves its slot at the next step. One that is on its way already, with the
same options, is not searched twice.
"""

import asyncio
import logging
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

import torch

from seq2seq.errors import RequestError
from seq2seq.generation import Answer, Generation, Request, Row, blank
from seq2seq.looks import Explanation
from service.jobs import Follower, Job, Place, Ticket
from service.metrics import Metrics
from service.middleware import place_of
from service.models import Served
from service.problems import Problem
from service.settings import Settings

log = logging.getLogger("interlinear.service")

T = TypeVar("T")

SHORT = 1000  # characters that are encoded in less time than a thread takes to wake
SWITCH_SECONDS = 0.0005
LONGEST_WAIT = 60  # seconds that Retry-After says at most
STOPPING = Problem.away("the service is being stopped")


class RefusedError(Exception):
    """A text cannot be searched as asked: which of the request's, and why."""

    def __init__(self, index: int, error: RequestError) -> None:
        super().__init__(index, error)
        self.index = index
        self.error = error


class EngineError(Exception):
    """The search itself failed; the log says where."""


@dataclass(eq=False)
class Table:
    """A model, its slots, and who waits for them."""

    model: Served
    generation: Generation
    retired: bool = False  # another version is in its place: once idle, it is let go
    waiting: deque[Ticket] = field(default_factory=deque)
    searching: set[Ticket] = field(default_factory=set)
    flying: dict[Hashable, Ticket] = field(default_factory=dict)  # what waits or is searched, by identity

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.searching)


class Engine:
    """Answers texts by searching them together. Its methods are for the event loop; the search has its own thread."""

    def __init__(self, models: Sequence[Served], settings: Settings, metrics: Metrics) -> None:
        self.settings = settings
        self.metrics = metrics
        self._tables: dict[Served, Table] = {}
        self.explains: dict[Served, Explanation] = {}
        self._wake = threading.Condition()
        self._waiting_texts = self._waiting_tokens = 0
        self._seconds_per_text = 0.05
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        for model in models:
            self.add(model)

    def add(self, model: Served) -> None:
        """Warm a model, so that its first request finds everything loaded; in any thread, beside the search."""
        generation = self._generation(model)
        explains = self._warmed(generation)
        with self._wake:
            self._tables[model] = Table(model, generation)
            self.explains[model] = explains

    def retire(self, model: Served) -> None:
        """No request will choose this model again: what it has accepted is finished, then it is let go."""
        with self._wake:
            self._table(model).retired = True
            self._wake.notify()

    def start(self) -> None:
        # The search holds the interpreter's lock nearly always; the event loop should not wait 5 ms for its turn.
        sys.setswitchinterval(SWITCH_SECONDS)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Take nothing more, finish what was accepted, and end; what is not finished by then fails with 503."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        self._thread.join(seconds)
        with self._wake:
            for table in self._tables.values():
                self._fail(table, Problem.away("the service was stopped before this was answered"))

    @property
    def ready(self) -> bool:
        return self._thread.is_alive() and not self._stopping

    async def answers(self, wanted: Sequence[tuple[Served, Request]], follower: Follower | None = None) -> list[Answer]:
        """Search every text; answers come in the order asked. Cancelling this frees the slots.

        A `follower` is told what is written meanwhile.

        Raises RefusedError for a text that cannot be searched, Problem 429 when too much waits and 503 when stopping.
        """
        if not self.ready:
            self._refuse("stopping", STOPPING)
        loop = asyncio.get_running_loop()
        length = sum(len(text) for _, request in wanted for text in request.texts.values())
        rows = await here_or_aside(length <= SHORT, self._encode, wanted)
        job = Job(loop, loop.create_future(), [None] * len(rows), len(rows), follower)
        self._enqueue([model for model, _ in wanted], rows, job)
        if follower:
            follower.accepted()
        try:
            return await job.done
        finally:
            job.over = True

    def _encode(self, wanted: Sequence[tuple[Served, Request]]) -> list[Row]:
        rows = []
        for i, (model, request) in enumerate(wanted):
            with self._wake:
                generation = self._table(model).generation
            try:
                rows.append(generation.encode(request))
            except RequestError as error:
                raise RefusedError(i, error) from None
        return rows

    def _table(self, model: Served) -> Table:
        """The model's table; the caller holds the lock. A request may come with a model that was let go meanwhile."""
        if model not in self._tables:
            self._tables[model] = Table(model, self._generation(model), retired=True)
        return self._tables[model]

    def _enqueue(self, models: Sequence[Served], rows: Sequence[Row], job: Job) -> None:
        now = time.perf_counter()
        with self._wake:
            if not self.ready:
                self._refuse("stopping", STOPPING)
            new: dict[tuple[Served, Hashable], Ticket] = {}
            joined: list[Ticket] = []
            for model, row in zip(models, rows, strict=True):
                who = identity(row.request)
                same = self._table(model).flying.get(who) or new.get((model, who))
                joined.append(same or new.setdefault((model, who), Ticket(row, who, now)))
            texts, tokens = len(new), sum(ticket.cost for ticket in new.values())
            # A request that is alone is always taken: its own size is bounded by the limits on a request.
            over_texts = self._waiting_texts + texts > self.settings.queue_texts
            over_tokens = self._waiting_tokens + tokens > self.settings.queue_tokens
            if self._waiting_texts and (over_texts or over_tokens):
                wait = min(max(math.ceil(self._waiting_texts * self._seconds_per_text), 1), LONGEST_WAIT)
                busy = Problem.busy(f"{self._waiting_texts} texts wait already; come again in {wait} s", wait)
                self._refuse("queue_texts" if over_texts else "queue_tokens", busy)
            for i, ticket in enumerate(joined):
                ticket.places.append(Place(job, i))
            for (model, who), ticket in new.items():
                self._table(model).waiting.append(ticket)
                self._table(model).flying[who] = ticket
            self._count(texts, tokens)
            self.metrics.shared.inc(len(rows) - texts)
            self._wake.notify()

    def _refuse(self, reason: str, problem: Problem) -> NoReturn:
        self.metrics.rejected.labels(reason).inc()
        raise problem

    def _count(self, texts: int, tokens: int) -> None:
        self._waiting_texts += texts
        self._waiting_tokens += tokens
        self.metrics.waiting.set(self._waiting_texts)
        self.metrics.waiting_tokens.set(self._waiting_tokens)

    # The engine's thread.

    def _run(self) -> None:
        if self.settings.threads:
            torch.set_num_threads(self.settings.threads)
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._stopping or any(t.busy or t.retired for t in self._tables.values()))
                for model in [t.model for t in self._tables.values() if t.retired and not t.busy]:
                    del self._tables[model]
                    self.explains.pop(model, None)
                busy = [table for table in self._tables.values() if table.busy]
                if not busy and self._stopping:
                    return
            for table in busy:
                try:
                    self._turn(table)
                except Exception as error:
                    log.error("%s failed: %s", table.model, place_of(error))
                    with self._wake:
                        self._fail(table, EngineError(str(table.model)))
                    table.generation = self._generation(table.model)

    def _turn(self, table: Table) -> None:
        """Let go what nobody waits for, admit what fits, take one step, and hand over what is finished."""
        generation, name = table.generation, table.model.name
        with self._wake:  # nobody joins what has been given up
            given_up = [ticket for ticket in table.searching if ticket.over]
            for ticket in given_up:
                table.flying.pop(ticket.identity, None)
            table.searching.difference_update(given_up)
        generation.cancel(given_up)
        if admitted := self._take(table, generation.free):
            table.searching.update(admitted)
            generation.admit([(ticket, ticket.row) for ticket in admitted])
            for ticket in admitted:
                ticket.admitted = time.perf_counter()
                self.metrics.queue_seconds.labels(name).observe(ticket.admitted - ticket.arrived)
        if table.searching:
            self.metrics.steps.labels(name).inc()
            self.metrics.stepped.labels(name).inc(len(table.searching))
            read, room = generation.positions
            self.metrics.positions.labels(name, "text").inc(read)
            self.metrics.positions.labels(name, "padding").inc(room - read)
            for key, answer in generation.advance():
                assert isinstance(key, Ticket)
                self._hand_over(table, key, answer)
            if followed := [ticket for ticket in table.searching if ticket.followed]:
                self._tell(followed, generation)
        self.metrics.searching.labels(name).set(len(table.searching))

    def _take(self, table: Table, free: int) -> list[Ticket]:
        taken: list[Ticket] = []
        with self._wake:
            while table.waiting and len(taken) < free:
                ticket = table.waiting.popleft()
                self._count(-1, -ticket.cost)
                if ticket.over:
                    table.flying.pop(ticket.identity, None)
                else:
                    taken.append(ticket)
        return taken

    def _tell(self, tickets: Sequence[Ticket], generation: Generation) -> None:
        """Tell those who follow how the answers begin."""
        for key, ids in generation.prefixes(tickets).items():
            assert isinstance(key, Ticket)
            for place in key.places:
                if place.job.follower and place.told < len(ids) and not place.job.over:
                    place.told = len(ids)
                    place.job.tell(place.job.follower.written, place.index, ids)

    def _hand_over(self, table: Table, ticket: Ticket, answer: Answer) -> None:
        with self._wake:  # nobody joins what is answered
            table.searching.discard(ticket)
            table.flying.pop(ticket.identity, None)
        name, seconds = table.model.name, time.perf_counter() - ticket.admitted
        self._seconds_per_text += 0.1 * (seconds / (len(table.searching) + 1) - self._seconds_per_text)
        self.metrics.texts.labels(name).inc()
        self.metrics.tokens.labels(name, "read").inc(sum(len(text.ids) + 1 for text in ticket.row.sources.values()))
        self.metrics.tokens.labels(name, "written").inc(len(answer.candidates[0].ids))
        self.metrics.search_seconds.labels(name).observe(seconds)
        for place in ticket.places:
            place.job.answer(place.index, answer)

    def _fail(self, table: Table, error: Exception) -> None:
        """Every text of the table fails; the caller holds the lock."""
        for ticket in [*table.waiting, *table.searching]:
            for place in ticket.places:
                if not place.job.over:
                    place.job.settle(error)
        for ticket in table.waiting:
            self._count(-1, -ticket.cost)
        table.waiting.clear()
        table.searching.clear()
        table.flying.clear()

    @staticmethod
    def _warmed(generation: Generation) -> Explanation:
        """Search once, so that the first request finds everything loaded; an explanation as the model gives them."""
        card = generation.bundle.card
        texts = dict.fromkeys(card.model.texts, "1")
        images = {name: blank(grid) for name, grid in card.model.images.items()}
        warming = Request(texts, card.search, explain=True, images=images)
        generation.admit([("warm", generation.encode(warming))])
        while not (finished := generation.advance()):
            pass
        ((_, answer),) = finished
        assert answer.explanation is not None
        return answer.explanation

    def _generation(self, model: Served) -> Generation:
        self.metrics.slots.labels(model.name).set(model.slots)
        return Generation(model.bundle, slots=model.slots, width=model.width)


def identity(request: Request) -> Hashable:
    """Equal for requests that are searched and answered alike; one with pictures is like no other."""
    if request.images:
        return object()
    return tuple(request.texts.items()), request.options, request.explain, request.raw


async def here_or_aside(here: bool, work: Callable[..., T], *arguments: object) -> T:
    """Do a little work at once, and much of it in a thread, so that the event loop never waits for long."""
    return work(*arguments) if here else await asyncio.to_thread(work, *arguments)
