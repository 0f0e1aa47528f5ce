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
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NoReturn, TypeVar

from seq2seq.errors import RequestError
from seq2seq.explain import Explanation
from seq2seq.generate import Answer, Generation, Request, Row
from service.engine.admission import Admission, Amount, Reserved
from service.engine.pool import Lane, Lanes, Loadable
from service.engine.preparation import Preparation
from service.engine.queued import Follower, Job, Place, Ticket
from service.engine.scheduler import Admitted, Cancel, Event, Failed, Follow, Join, Lost, Put, Stepped, Text
from service.metrics import Metrics
from service.models import Served
from service.problems import Problem
from service.settings import Settings

log = logging.getLogger("interlinear.service")

T = TypeVar("T")

SHORT = 1000  # characters that are encoded, or answered in writing, in less time than a thread takes to wake
CHARACTERS = 8  # of a text to a token, at most: by these room is reserved for it until it is encoded
SWITCH_SECONDS = 0.0005
LONGEST_WAIT = 60  # seconds that Retry-After says at most
STOPPING = "the service is being stopped"
STOPPED = "the service was stopped before this was answered"
TRIES = 3  # engines that a text waits at, each after the one before has ended
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
        self.preparation = Preparation(settings.prepare_threads)
        metrics.preparing.set_function(lambda: self.preparation.waiting)
        self.admission = Admission(settings.queue_texts, settings.queue_tokens)
        self._on_their_way: Counter[str] = Counter()  # texts of requests that were admitted and not answered
        self._unanswered = 0  # requests that were admitted
        self._ended = False
        self._seconds_per_text = 0.05
        self._started = False
        self._stopping = threading.Event()
        with self._lock:  # so that nothing is heard before they are there
            self.lanes = Lanes(settings, metrics, self._heard, self._opened, self._lock)
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
            self._lock.wait_for(lambda: not (self._unanswered or any(lane.tickets for lane in self.lanes)), seconds)
            self._ended = True
            for lane in self.lanes:
                self._fail(lane, list(lane.tickets), STOPPED)
        self.preparation.stop(Problem.away(STOPPED))
        self.lanes.end()

    @property
    def ready(self) -> bool:
        return self._started and not self._stopping.is_set() and any(lane.able for lane in self.lanes)

    @property
    def stuck(self) -> str | None:
        """Why the service should be started again, where nothing else helps."""
        return self.lanes.stuck

    @contextmanager
    def admit(
        self, caller: str, texts: Sequence[str], fewest: Callable[[Sequence[str]], int] = len, beam: int = 1
    ) -> Iterator[Reserved]:
        """Reserve room in the queue for a request's texts while they are split and encoded, which costs work.

        `fewest`: how many texts will be searched for some of them, at least. Those that are the same as another on its
        way are none: they most likely wait for its answer. Raises Problem 429 when too much waits, and 503 when
        stopping.
        """
        caller = caller if self.settings.fair else ""
        with self._lock:
            self._check_open()
            new = list(dict.fromkeys(text for text in texts if text not in self._on_their_way))
            reserved = Reserved(caller, Amount(fewest(new), sum(map(len, new)) // CHARACTERS * beam))
            self._check_room(caller, reserved.kept)
            self.admission.add(caller, reserved.kept.texts, reserved.kept.tokens)
            self._on_their_way.update(texts)
            self._unanswered += 1
        try:
            yield reserved
        finally:
            with self._lock:
                self._release(reserved)
                self._on_their_way.subtract(texts)
                for text in texts:
                    if not self._on_their_way[text]:
                        del self._on_their_way[text]
                self._unanswered -= 1
                self._lock.notify_all()

    def _release(self, reserved: Reserved) -> None:
        """What was kept for a request is no longer: its texts themselves wait now, or nothing does."""
        self.admission.add(reserved.caller, -reserved.kept.texts, -reserved.kept.tokens)
        reserved.kept = Amount()

    async def answers(
        self,
        wanted: Sequence[tuple[Served, Request]],
        follower: Follower | None = None,
        reserved: Reserved | None = None,
    ) -> list[Answer]:
        """Search every text; answers come in the order asked. Cancelling this frees the slots.

        Slots are shared fairly between callers; `reserved` is the request's, from `admit`. A `follower` is told what is
        written meanwhile.

        Raises RefusedError for a text that cannot be searched, Problem 429 when too much waits, and 503 when stopping
        and when what searched it has ended.
        """
        if reserved is None:
            with self.admit("", [text for _, request in wanted for text in request.texts.values()]) as reserved:
                return await self.answers(wanted, follower, reserved)
        loop = asyncio.get_running_loop()
        rows = await self.preparation.each(reserved.caller, self._encode, list(enumerate(wanted)), characters_of, SHORT)
        if reserved.charge:
            await reserved.charge(sum(row.length * row.request.options.beam for row in rows))
        job = Job(loop, loop.create_future(), [None] * len(rows), len(rows), reserved.caller, follower)
        tickets = self._enqueue([model for model, _ in wanted], rows, job, reserved)
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

    def _encode(self, wanted: tuple[int, tuple[Served, Request]]) -> Row:
        index, (model, request) = wanted
        try:
            return self._known[model].reading.encode(request)
        except RequestError as error:
            raise RefusedError(index, error) from None

    def _enqueue(self, models: Sequence[Served], rows: Sequence[Row], job: Job, reserved: Reserved) -> set[Ticket]:
        """Give every text to a lane, or to the ticket of the same text that is on its way. Raises Problem."""
        now, followed = time.perf_counter(), job.follower is not None
        with self._lock:
            self._release(reserved)
            if self._ended:
                self._refuse("stopping", Problem.away(STOPPED))
            new: dict[tuple[Served, Hashable], Ticket] = {}
            joined: list[Ticket] = []
            for model, row in zip(models, rows, strict=True):
                who = identity(row.request)
                ticket = self._known[model].flying.get(who) or new.get((model, who))
                if ticket is None:
                    ticket = new[model, who] = Ticket(next(self._numbers), model, row, who, now, followed)
                joined.append(ticket)
            self._check_room(job.caller, Amount(len(new), sum(ticket.cost for ticket in new.values())))
            lanes = {model: self._fitting(model) for model in {ticket.model for ticket in new.values()}}
            for ticket in new.values():
                ticket.callers.append(job.caller)
                self._known[ticket.model].flying[ticket.identity] = ticket
            for i, ticket in enumerate(joined):
                ticket.places.append(Place(job, i))
            self._give(new.values(), lanes)
            self._join([ticket for ticket in joined if job.caller not in ticket.callers], job.caller)
            self._follow(ticket for ticket in joined if followed and not ticket.followed)
            self.metrics.shared.inc(len(rows) - len(new))
            return set(joined)

    def _check_room(self, caller: str, more: Amount) -> None:
        """Raises Problem where too much waits for this to wait too."""
        if reason := self.admission.refused(caller, more.texts, more.tokens):
            up, waiting = sum(lane.up for lane in self.lanes), self.admission.waiting.texts
            seconds = math.ceil(waiting * self._seconds_per_text / max(1, up))
            wait = min(max(seconds, 1), LONGEST_WAIT)
            self._refuse(reason, Problem.busy(f"{waiting} texts wait already; come again in {wait} s", wait))

    def _fitting(self, model: Served) -> list[Lane]:
        """The lanes that have a model. Raises Problem where there is none."""
        lanes = self.lanes.having(self._known[model].number)
        if not lanes:
            self._refuse("engine", Problem.away(NONE_UP))
        return lanes

    def _give(self, tickets: Iterable[Ticket], lanes: Mapping[Served, Sequence[Lane]]) -> None:
        """Have these wait, each at that one of its model's lanes that has the least to do."""
        given: dict[Lane, list[Ticket]] = {}
        for ticket in tickets:
            lane = min(lanes[ticket.model], key=lambda lane: lane.load)
            lane.give(ticket)
            given.setdefault(lane, []).append(ticket)
            self._count(lane, ticket, 1)
        for lane, own in given.items():
            self._order_texts(lane, own)

    def _order_texts(self, lane: Lane, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            ticket.given += 1
        lane.send(
            Put(
                tuple(Text(t.number, self._known[t.model].number, t.row, t.followed, tuple(t.callers)) for t in tickets)
            )
        )

    def _join(self, tickets: Sequence[Ticket], caller: str) -> None:
        """Let these have their slots when it is this caller's turn, too: nobody waits behind what another asked for."""
        numbers = {ticket.number for ticket in tickets}
        for ticket in tickets:
            if caller not in ticket.callers:  # it may be in a request several times
                ticket.callers.append(caller)
        for lane in self.lanes:
            if own := lane.tickets.keys() & numbers:
                lane.send(Join(frozenset(own), caller))

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
                self._count(lane, ticket, -1)
        if not lane.tickets:
            self._lock.notify_all()
        return tickets

    def _refuse(self, reason: str, problem: Problem) -> NoReturn:
        self.metrics.rejected.labels(reason).inc()
        raise problem

    def _count(self, lane: Lane, ticket: Ticket, texts: int) -> None:
        """A ticket waits (1), or does not any more (-1); for whoever was first to ask for it."""
        tokens = texts * ticket.cost
        self.admission.add(ticket.callers[0], texts, tokens)
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
                    self.lanes.lost(lane, event.reason)
                    self._lost(lane)

    def _lost(self, lane: Lane) -> None:
        """What a lane was searching fails with it. What waited there goes on waiting: at another that has the model, or
        there, until it is open again."""
        failed = [n for n, ticket in lane.tickets.items() if ticket.admitted is not None or ticket.given >= TRIES]
        self.metrics.rejected.labels("engine").inc(self._fail(lane, failed, LOST))
        others = {ticket.model: self.lanes.having(self._known[ticket.model].number) for ticket in lane.tickets.values()}
        moving = [ticket for ticket in list(lane.tickets.values()) if others[ticket.model]]
        for ticket in moving:
            lane.take(ticket.number)
            self._count(lane, ticket, -1)
        self._give(moving, others)

    def _opened(self, lane: Lane) -> None:
        """A lane takes texts again: those that waited there are first. The caller holds the lock."""
        if lane.tickets:
            self._order_texts(lane, list(lane.tickets.values()))

    def _admitted(self, lane: Lane, numbers: Iterable[int]) -> None:
        now = time.perf_counter()
        for ticket in filter(None, map(lane.tickets.get, numbers)):
            ticket.admitted = now
            self._count(lane, ticket, -1)
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


def characters_of(wanted: tuple[int, tuple[Served, Request]]) -> int:
    """How long a text is that is to be encoded."""
    return sum(map(len, wanted[1][1].texts.values()))


def identity(request: Request) -> Hashable:
    """Equal for requests that are searched and answered alike; one with pictures is like no other."""
    if request.images:
        return object()
    return tuple(request.texts.items()), request.options, request.explain, request.tokenised


async def here_or_aside(here: bool, work: Callable[..., T], *arguments: object) -> T:
    """Do a little work at once, and much of it in a thread, so that the event loop never waits for long."""
    return work(*arguments) if here else await asyncio.to_thread(work, *arguments)
