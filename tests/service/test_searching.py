"""What the search's thread makes of its orders: who enters when, and what it tells."""

import queue
from collections.abc import Iterator

import pytest

from seq2seq.bundle import load
from seq2seq.generation import Generation, Request
from seq2seq.search import SearchOptions
from service.searching import HELD_STEPS, Admitted, Cancel, Event, Put, SearchThread, Stepped, Text
from tests.service.test_engine import MANY

SLOTS = 16


@pytest.fixture
def told() -> "queue.SimpleQueue[Event]":
    return queue.SimpleQueue()


@pytest.fixture
def search(bundles, told) -> Iterator[SearchThread]:
    """A thread with a model of 16 slots under the number 0."""
    thread = SearchThread(told.put, 1)
    thread.load(0, load(bundles.de_en), SLOTS, 5)
    thread.start()
    yield thread
    thread.end(10)
    assert not thread.alive


def put(search: SearchThread, count: int) -> Generation:
    """Texts of mixed lengths; what reads them."""
    reading = search_table(search).generation
    texts = [" ".join(MANY[i : i + 1 + i % 4]) for i in range(count)]
    rows = [reading.encode(Request({"source": text}, SearchOptions(beam=1 + i % 5))) for i, text in enumerate(texts)]
    search.send(Put(tuple(Text(i, 0, row, followed=False) for i, row in enumerate(rows))))
    return reading


def search_table(search: SearchThread):
    while 0 not in search.tables:
        pass
    return search.tables[0]


def heard(told: "queue.SimpleQueue[Event]", texts: int) -> list[Event]:
    """Events until so many texts are answered."""
    events: list[Event] = []
    while sum(len(event.answered) for event in events if isinstance(event, Stepped)) < texts:
        events.append(told.get(timeout=60))
    return events


def test_texts_enter_together_where_more_wait_than_there_is_room_for(search, told):
    put(search, 100)
    events = heard(told, 100)
    sizes = [len(event.numbers) for event in events if isinstance(event, Admitted)]
    assert sizes[0] == SLOTS and sum(sizes) == 100
    assert len(sizes) < 100 / 3, "a quarter of 16 slots at a time, but after some steps what there is"
    steps = sum(event.steps for event in events if isinstance(event, Stepped))
    assert steps > len(sizes) and len(sizes) >= 100 / SLOTS
    numbers = [number for event in events if isinstance(event, Admitted) for number in event.numbers]
    assert numbers == list(range(100)), "in their order"


def test_a_text_enters_at_once_where_there_is_room(search, told):
    put(search, SLOTS - 1)
    assert len(told.get(timeout=60).numbers) == SLOTS - 1
    row = search.tables[0].generation.encode(Request({"source": "Ein Kind."}, SearchOptions()))
    search.send(Put((Text(99, 0, row, followed=False),)))
    events = heard(told, SLOTS)
    assert [event.numbers for event in events if isinstance(event, Admitted)] == [(99,)]


def test_whoever_waits_enters_after_some_steps_though_few_slots_are_free(search, told):
    """Texts of which all but one are cancelled one by one would else keep the next waiting to their end."""
    put(search, SLOTS + 1)
    told.get(timeout=60)
    search.send(Cancel(frozenset({0})))
    steps = 0
    while not isinstance(event := told.get(timeout=60), Admitted):
        assert isinstance(event, Stepped)
        steps += event.steps
    assert event.numbers == (SLOTS,)
    assert steps <= HELD_STEPS + 2
