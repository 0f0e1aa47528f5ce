"""The engine: one thread that steps every model's search, fed by requests from the event loop.

Texts that wait enter a model's table whenever it has free slots, whoever sent them, and are searched together; a text
that is finished, cancelled or out of time leaves its slot at the next step.
"""

import asyncio
import logging
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

import torch

from seq2seq.errors import RequestError
from seq2seq.generation import Answer, Generation, Request, Row, blank
from seq2seq.looks import Explanation
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
class Job:
    """The texts of one request, until all are answered."""

    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[list[Answer]]
    answers: list[Answer | None]
    missing: int
    over: bool = False  # answered, failed or given up: what is left of it is not searched


@dataclass(eq=False)
class Ticket:
    """One text on its way through a table; its own key there."""

    job: Job
    index: int
    row: Row
    arrived: float
    admitted: float = 0.0

    @property
    def cost(self) -> int:
        """Tokens x beam."""
        return self.row.length * self.row.request.options.beam


@dataclass(eq=False)
class Table:
    """A model, its slots, and who waits for them."""

    model: Served
    generation: Generation
    waiting: deque[Ticket] = field(default_factory=deque)
    searching: set[Ticket] = field(default_factory=set)

    @property
    def busy(self) -> bool:
        return bool(self.waiting or self.searching)


class Engine:
    """Answers texts by searching them together. Its methods are for the event loop; the search has its own thread."""

    def __init__(self, models: Sequence[Served], settings: Settings, metrics: Metrics) -> None:
        self.settings = settings
        self.metrics = metrics
        self._tables = {model: Table(model, self._generation(model)) for model in models}
        self.explains = {model: self._warmed(table.generation) for model, table in self._tables.items()}
        self._wake = threading.Condition()
        self._waiting_texts = self._waiting_tokens = 0
        self._seconds_per_text = 0.05
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)

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

    async def answers(self, wanted: Sequence[tuple[Served, Request]]) -> list[Answer]:
        """Search every text; answers come in the order asked. Cancelling this frees the slots.

        Raises RefusedError for a text that cannot be searched, Problem 429 when too much waits and 503 when stopping.
        """
        if not self.ready:
            self._refuse("stopping", STOPPING)
        loop = asyncio.get_running_loop()
        length = sum(len(text) for _, request in wanted for text in request.texts.values())
        rows = await here_or_aside(length <= SHORT, self._encode, wanted)
        job = Job(loop, loop.create_future(), [None] * len(rows), len(rows))
        now = time.perf_counter()
        tickets = [Ticket(job, i, row, now) for i, row in enumerate(rows)]
        self._enqueue([model for model, _ in wanted], tickets)
        try:
            return await job.done
        finally:
            job.over = True

    def _encode(self, wanted: Sequence[tuple[Served, Request]]) -> list[Row]:
        rows = []
        for i, (model, request) in enumerate(wanted):
            try:
                rows.append(self._tables[model].generation.encode(request))
            except RequestError as error:
                raise RefusedError(i, error) from None
        return rows

    def _enqueue(self, models: Sequence[Served], tickets: Sequence[Ticket]) -> None:
        texts, tokens = len(tickets), sum(ticket.cost for ticket in tickets)
        with self._wake:
            if not self.ready:
                self._refuse("stopping", STOPPING)
            # A request that is alone is always taken: its own size is bounded by the limits on a request.
            over_texts = self._waiting_texts + texts > self.settings.queue_texts
            over_tokens = self._waiting_tokens + tokens > self.settings.queue_tokens
            if self._waiting_texts and (over_texts or over_tokens):
                wait = min(max(math.ceil(self._waiting_texts * self._seconds_per_text), 1), LONGEST_WAIT)
                busy = Problem.busy(f"{self._waiting_texts} texts wait already; come again in {wait} s", wait)
                self._refuse("queue_texts" if over_texts else "queue_tokens", busy)
            for model, ticket in zip(models, tickets, strict=True):
                self._tables[model].waiting.append(ticket)
            self._count(texts, tokens)
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
                self._wake.wait_for(lambda: self._stopping or any(table.busy for table in self._tables.values()))
                busy = [table for table in self._tables.values() if table.busy]
                if not busy:
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
        given_up = [ticket for ticket in table.searching if ticket.job.over]
        generation.cancel(given_up)
        table.searching.difference_update(given_up)
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
        self.metrics.searching.labels(name).set(len(table.searching))

    def _take(self, table: Table, free: int) -> list[Ticket]:
        taken: list[Ticket] = []
        with self._wake:
            while table.waiting and len(taken) < free:
                ticket = table.waiting.popleft()
                self._count(-1, -ticket.cost)
                if not ticket.job.over:
                    taken.append(ticket)
        return taken

    def _hand_over(self, table: Table, ticket: Ticket, answer: Answer) -> None:
        table.searching.discard(ticket)
        name, seconds = table.model.name, time.perf_counter() - ticket.admitted
        self._seconds_per_text += 0.1 * (seconds / (len(table.searching) + 1) - self._seconds_per_text)
        self.metrics.texts.labels(name).inc()
        self.metrics.tokens.labels(name, "read").inc(ticket.row.length)
        self.metrics.tokens.labels(name, "written").inc(len(answer.candidates[0].ids))
        self.metrics.search_seconds.labels(name).observe(seconds)
        job = ticket.job
        job.answers[ticket.index] = answer
        job.missing -= 1
        if not job.missing:
            _settle(job, [answer for answer in job.answers if answer is not None])

    def _fail(self, table: Table, error: Exception) -> None:
        """Every text of the table fails; the caller holds the lock."""
        for ticket in [*table.waiting, *table.searching]:
            _settle(ticket.job, error)
        for ticket in table.waiting:
            self._count(-1, -ticket.cost)
        table.waiting.clear()
        table.searching.clear()

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
        width = max(self.settings.beam, model.bundle.card.search.beam)
        self.metrics.slots.labels(model.name).set(self.settings.slots)
        return Generation(model.bundle, slots=self.settings.slots, width=width)


async def here_or_aside(here: bool, work: Callable[..., T], *arguments: object) -> T:
    """Do a little work at once, and much of it in a thread, so that the event loop never waits for long."""
    return work(*arguments) if here else await asyncio.to_thread(work, *arguments)


def _settle(job: Job, outcome: list[Answer] | Exception) -> None:
    """Give a job's waiter its answers or its error, from any thread."""
    job.over = True

    def settle() -> None:
        if job.done.done():  # given up meanwhile
            return
        if isinstance(outcome, Exception):
            job.done.set_exception(outcome)
        else:
            job.done.set_result(outcome)

    if not job.loop.is_closed():
        job.loop.call_soon_threadsafe(settle)
