"""The engine: takes the texts of requests from the event loop, has them searched, and hands the answers back.

What is searched together, and when a text has its slot, is decided where it is searched: in a thread of this process
(`SearchThread`) or, for several devices and for GPUs, in a process for each (`SearchProcess`). A text goes to where
there is least to do; one that is on its way already, with the same options, is not searched twice.
"""

import asyncio
import itertools
import logging
import math
import sys
import threading
import time
import weakref
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from seq2seq.errors import RequestError
from seq2seq.generation import Answer, Generation, Request, Row
from seq2seq.looks import Explanation
from service.jobs import Follower, Job, Place, Ticket
from service.lanes import Lane, Lanes, Loadable
from service.metrics import Metrics
from service.models import Served
from service.problems import Problem
from service.searching import (
    Admitted,
    Cancel,
    Event,
    Failed,
    Follow,
    Lost,
    Put,
    Stepped,
    Text,
)
from service.settings import Settings

log = logging.getLogger("interlinear.service")

T = TypeVar("T")

SHORT = 1000  # characters that are encoded, or answered in writing, in less time than a thread takes to wake
SWITCH_SECONDS = 0.0005
LONGEST_WAIT = 60  # seconds that Retry-After says at most
STOPPING = "the service is being stopped"
LOST = "the engine that searched this has ended, and is started again"
NONE_UP = "no engine is up that has the model; it is started again"


class RefusedError(Exception):
    """A text cannot be searched as asked: which of the request's, and why."""

    def __init__(self, index: int, error: RequestError) -> None:
        super().__init__(index, error)
        self.index = index
        self.error = error


class EngineError(Exception):
    """The search itself failed; the log says where."""


@dataclass(eq=False)
class Known:
    """A model that requests may come with, until nobody can: it is let go with the last who holds its `Served`."""

    number: int  # under which lanes have it
    reading: Generation  # encodes requests, and searches nothing
    explanation: Explanation  # as the model gives them
    flying: dict[Hashable, Ticket] = field(default_factory=dict)  # what waits or is searched, by identity


class Engine:
    """Answers texts by having them searched together. Its methods are for the event loop, but for `add` and `stop`."""

    def __init__(self, models: Sequence[Served], settings: Settings, metrics: Metrics) -> None:
        """Raises InterlinearError where a model cannot be loaded, or a device not be used."""
        self.settings = settings
        self.metrics = metrics
        self._known: weakref.WeakKeyDictionary[Served, Known] = weakref.WeakKeyDictionary()
        self._lock = threading.Condition()  # of all that follows; notified when a lane has nothing to do any more
        self._numbers = itertools.count()
        self._waiting_texts = self._waiting_tokens = 0
        self._seconds_per_text = 0.05
        self._started = False
        self._stopping = threading.Event()
        with self._lock:  # so that nothing is heard before they are there
            self.lanes = Lanes(settings, metrics, self._heard, self._lock)
        try:
            for model in models:
                self.add(model)
        except BaseException:
            self.stop(0)
            raise

    def add(self, model: Served) -> None:
        """Load and warm a model, so that its first request finds everything ready; in any thread, beside the search.

        Raises InterlinearError.
        """
        loadable = Loadable(next(self._numbers), model.name, model.bundle, model.slots, model.width)
        explanation = self.lanes.load(loadable)
        with self._lock:
            self._known[model] = Known(loadable.number, Generation(model.bundle, width=model.width), explanation)
        weakref.finalize(model, self.lanes.unload, loadable.number).atexit = False

    def explanation(self, model: Served) -> Explanation:
        """An explanation as the model gives them."""
        return self._known[model].explanation

    def searching(self, model: Served) -> list[str]:
        """Where it is searched with the model now."""
        with self._lock:
            return [lane.name for lane in self.lanes.having(self._known[model].number)]

    def start(self) -> None:
        # The search holds the interpreter's lock nearly always; the event loop should not wait 5 ms for its turn.
        sys.setswitchinterval(SWITCH_SECONDS)
        self.lanes.start()
        self._started = True

    def stop(self, seconds: float) -> None:
        """Take nothing more, finish what was accepted, and end; what is not finished by then fails with 503."""
        with self._lock:
            self._stopping.set()
            self._lock.wait_for(lambda: not any(lane.tickets for lane in self.lanes), seconds)
            for lane in self.lanes:
                self._fail(lane, list(lane.tickets), "the service was stopped before this was answered")
        self.lanes.end()

    @property
    def ready(self) -> bool:
        return self._started and not self._stopping.is_set() and any(lane.able for lane in self.lanes)

    async def answers(self, wanted: Sequence[tuple[Served, Request]], follower: Follower | None = None) -> list[Answer]:
        """Search every text; answers come in the order asked. Cancelling this frees the slots.

        A `follower` is told what is written meanwhile.

        Raises RefusedError for a text that cannot be searched, Problem 429 when too much waits, and 503 when stopping
        and when what searched it has ended.
        """
        self._check_open()
        loop = asyncio.get_running_loop()
        length = sum(len(text) for _, request in wanted for text in request.texts.values())
        rows = await here_or_aside(length <= SHORT, self._encode, wanted)
        job = Job(loop, loop.create_future(), [None] * len(rows), len(rows), follower)
        tickets = self._enqueue([model for model, _ in wanted], rows, job)
        if follower:
            follower.accepted()
        try:
            return await job.done
        finally:
            job.over = True
            self._give_up(tickets)

    def _check_open(self) -> None:
        """Raises Problem where nothing is taken."""
        if self._stopping.is_set() or not self._started:
            self._refuse("stopping", Problem.away(STOPPING))
        if not self.ready:
            self._refuse("engine", Problem.away(NONE_UP))

    def _encode(self, wanted: Sequence[tuple[Served, Request]]) -> list[Row]:
        rows = []
        for i, (model, request) in enumerate(wanted):
            try:
                rows.append(self._known[model].reading.encode(request))
            except RequestError as error:
                raise RefusedError(i, error) from None
        return rows

    def _enqueue(self, models: Sequence[Served], rows: Sequence[Row], job: Job) -> set[Ticket]:
        """Give every text to a lane, or to the ticket of the same text that is on its way. Raises Problem."""
        now, followed = time.perf_counter(), job.follower is not None
        with self._lock:
            self._check_open()
            new: dict[tuple[Served, Hashable], Ticket] = {}
            joined: list[Ticket] = []
            for model, row in zip(models, rows, strict=True):
                who = identity(row.request)
                ticket = self._known[model].flying.get(who) or new.get((model, who))
                if ticket is None:
                    ticket = new[model, who] = Ticket(next(self._numbers), model, row, who, now, followed)
                joined.append(ticket)
            self._check_room(list(new.values()))
            given: dict[Lane, list[Ticket]] = {}
            lanes = {model: self._fitting(model) for model in {ticket.model for ticket in new.values()}}
            for ticket in new.values():
                lane = min(lanes[ticket.model], key=lambda lane: lane.load)
                lane.give(ticket)
                given.setdefault(lane, []).append(ticket)
                self._known[ticket.model].flying[ticket.identity] = ticket
            for i, ticket in enumerate(joined):
                ticket.places.append(Place(job, i))
            for lane, tickets in given.items():
                self._order_texts(lane, tickets)
            self._follow(ticket for ticket in joined if followed and not ticket.followed)
            self.metrics.shared.inc(len(rows) - len(new))
            return set(joined)

    def _check_room(self, new: Sequence[Ticket]) -> None:
        """Raises Problem where too much waits for these to wait too."""
        texts, tokens = len(new), sum(ticket.cost for ticket in new)
        over_texts = self._waiting_texts + texts > self.settings.queue_texts
        over_tokens = self._waiting_tokens + tokens > self.settings.queue_tokens
        # What adds nothing is taken, and so is a request that is alone: its size is bounded by the limits on a request.
        if new and self._waiting_texts and (over_texts or over_tokens):
            up = sum(lane.up for lane in self.lanes)
            seconds = math.ceil(self._waiting_texts * self._seconds_per_text / max(1, up))
            wait = min(max(seconds, 1), LONGEST_WAIT)
            busy = Problem.busy(f"{self._waiting_texts} texts wait already; come again in {wait} s", wait)
            self._refuse("queue_texts" if over_texts else "queue_tokens", busy)

    def _fitting(self, model: Served) -> list[Lane]:
        """The lanes that have a model. Raises Problem where there is none."""
        lanes = self.lanes.having(self._known[model].number)
        if not lanes:
            self._refuse("engine", Problem.away(NONE_UP))
        return lanes

    def _order_texts(self, lane: Lane, tickets: Sequence[Ticket]) -> None:
        texts = [Text(t.number, self._known[t.model].number, t.row, t.followed) for t in tickets]
        lane.send(Put(tuple(texts)))
        self._count(lane, len(tickets), sum(ticket.cost for ticket in tickets))

    def _follow(self, tickets: Iterable[Ticket]) -> None:
        """Be told from now on what is written of these."""
        chosen = {ticket.number: ticket for ticket in tickets}
        for lane in self.lanes:
            if numbers := lane.tickets.keys() & chosen.keys():
                lane.send(Follow(frozenset(numbers)))
        for ticket in chosen.values():
            ticket.followed = True

    def _give_up(self, tickets: set[Ticket]) -> None:
        """Have what nobody waits for any more searched no longer."""
        with self._lock:
            over = {ticket.number for ticket in tickets if ticket.over}
            for lane in self.lanes:
                if numbers := lane.tickets.keys() & over:
                    lane.send(Cancel(frozenset(numbers)))
                    self._done(lane, numbers)

    def _done(self, lane: Lane, numbers: Iterable[int]) -> list[Ticket]:
        """The tickets of texts that the lane is done with, whatever came of them; nobody joins them any more."""
        tickets = [ticket for number in numbers if (ticket := lane.take(number))]
        for ticket in tickets:
            self._known[ticket.model].flying.pop(ticket.identity, None)
            if ticket.admitted is None:
                self._count(lane, -1, -ticket.cost)
        if not lane.tickets:
            self._lock.notify_all()
        return tickets

    def _refuse(self, reason: str, problem: Problem) -> NoReturn:
        self.metrics.rejected.labels(reason).inc()
        raise problem

    def _count(self, lane: Lane, texts: int, tokens: int) -> None:
        self._waiting_texts += texts
        self._waiting_tokens += tokens
        self.metrics.waiting.labels(lane.name).inc(texts)
        self.metrics.waiting_tokens.labels(lane.name).inc(tokens)

    # What is heard from the lanes, in threads of theirs.

    def _heard(self, lane: Lane, event: Event) -> None:
        with self._lock:
            match event:
                case Admitted():
                    self._admitted(lane, event.numbers)
                case Stepped():
                    self._stepped(lane, event)
                case Failed():
                    model = lane.models.get(event.model)
                    log.error("a search with %s failed: %s", model.name if model else "a model let go", event.place)
                    self._settle(self._done(lane, event.numbers), lambda: EngineError(event.place))
                case Lost():
                    self.metrics.rejected.labels("engine").inc(self._fail(lane, list(lane.tickets), LOST))
                    self.lanes.lost(lane, event.reason)

    def _admitted(self, lane: Lane, numbers: Iterable[int]) -> None:
        now = time.perf_counter()
        for ticket in filter(None, map(lane.tickets.get, numbers)):
            ticket.admitted = now
            self._count(lane, -1, -ticket.cost)
            self.metrics.queue_seconds.labels(ticket.model.name).observe(now - ticket.arrived)

    def _stepped(self, lane: Lane, event: Stepped) -> None:
        if event.model in lane.models:
            names = lane.name, lane.models[event.model].name
            self.metrics.steps.labels(*names).inc(event.steps)
            self.metrics.stepped.labels(*names).inc(event.texts)
            self.metrics.positions.labels(*names, "text").inc(event.read)
            self.metrics.positions.labels(*names, "padding").inc(event.padding)
            self.metrics.searching.labels(*names).set(event.searching)
        for number, ids in event.written.items():
            if ticket := lane.tickets.get(number):
                ticket.tell(ids)
        for number, answer in event.answered:
            for ticket in self._done(lane, [number]):
                self._hand_over(ticket, answer, event.searching)

    def _hand_over(self, ticket: Ticket, answer: Answer, searching: int) -> None:
        assert ticket.admitted is not None
        name, seconds = ticket.model.name, time.perf_counter() - ticket.admitted
        self._seconds_per_text += 0.1 * (seconds / (searching + 1) - self._seconds_per_text)
        self.metrics.texts.labels(name).inc()
        self.metrics.tokens.labels(name, "read").inc(sum(len(text.ids) + 1 for text in ticket.row.sources.values()))
        self.metrics.tokens.labels(name, "written").inc(len(answer.candidates[0].ids))
        self.metrics.search_seconds.labels(name).observe(seconds)
        for place in ticket.places:
            place.job.answer(place.index, answer)

    def _fail(self, lane: Lane, numbers: Iterable[int], why: str) -> int:
        """These texts fail with 503; how many requests that were."""
        return self._settle(self._done(lane, numbers), lambda: Problem.away(why))

    @staticmethod
    def _settle(tickets: Sequence[Ticket], error: Callable[[], Exception]) -> int:
        """Every request with one of these texts fails, each with an error of its own."""
        jobs = {place.job for ticket in tickets for place in ticket.places if not place.job.over}
        for job in jobs:
            job.settle(error())
        return len(jobs)


def identity(request: Request) -> Hashable:
    """Equal for requests that are searched and answered alike; one with pictures is like no other."""
    if request.images:
        return object()
    return tuple(request.texts.items()), request.options, request.explain, request.tokenised


async def here_or_aside(here: bool, work: Callable[..., T], *arguments: object) -> T:
    """Do a little work at once, and much of it in a thread, so that the event loop never waits for long."""
    return work(*arguments) if here else await asyncio.to_thread(work, *arguments)
