"""Fair queueing worked by hand, and its effect on callers: when each text gets a slot."""

import queue
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlinear.bundle import load
from interlinear.generation.bundle_translator import BundleTranslator
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import Request
from interlinear.search import SearchOptions
from service.engine.admission import Admission
from service.engine.fair_queue import FairQueue
from service.engine.protocol import Add, AddCaller, EngineOutputs, EngineRequest, Event, Scheduled
from service.engine.scheduler import BatchScheduler
from tests.service.engine.conftest import SLOTS
from tests.service.engine.test_engine import MANY


def taken(waiting: FairQueue[int], count: int | None = None) -> list[tuple[str, int]]:
    return [waiting.take() for _ in range(len(waiting) if count is None else count)]


def test_turns_by_hand():
    """Each text of a costs 2, each of b 1: b has two turns for each of a's; c comes late, and is next."""
    waiting: FairQueue[int] = FairQueue()
    for i in range(4):
        waiting.put("a", i, 2.0)
    for i in range(10, 16):
        waiting.put("b", i, 1.0)
    assert taken(waiting, 6) == [("a", 0), ("b", 10), ("b", 11), ("a", 1), ("b", 12), ("b", 13)]
    waiting.put("c", 20, 100.0)
    assert taken(waiting, 3) == [("c", 20), ("a", 2), ("b", 14)]
    waiting.put("c", 21, 1.0)
    assert taken(waiting) == [("b", 15), ("a", 3), ("c", 21)], "c owes a hundred"


def test_a_text_requested_by_two_callers_is_taken_once_at_the_earlier_turn():
    waiting: FairQueue[int] = FairQueue()
    for i in range(50):
        waiting.put("a", i, 1.0)
    waiting.put("b", 49, 1.0)
    assert taken(waiting, 2) == [("a", 0), ("b", 49)]
    waiting.remove([1, 2])
    assert [key for _, key in taken(waiting)] == list(range(3, 49))
    assert not waiting.callers() and not len(waiting)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 50)), max_size=60), st.data())
def test_callers_with_queued_texts_get_equal_shares(items, data):
    """Of two callers with queued texts at all times, neither is ahead by more than the cost of one text each."""
    waiting: FairQueue[int] = FairQueue()
    costs = dict(enumerate(cost for _, cost in items))
    for key, (caller, cost) in enumerate(items):
        waiting.put(caller, key, cost)
    count = data.draw(st.integers(0, len(items)))
    served: Counter[str] = Counter()
    first = set(waiting.callers())
    for caller, key in taken(waiting, count):
        served[caller] += costs[key]
        backlogged = first & set(waiting.callers())
        most = max(costs.values())
        assert all(abs(served[a] - served[b]) <= 2 * most for a in backlogged for b in backlogged)


@pytest.fixture
def texts(bundles) -> Callable[[str, range], tuple[EngineRequest, ...]]:
    reading = SequenceGenerator(load(bundles.de_en), width=5)

    def encode(caller: str, numbers: range) -> tuple[EngineRequest, ...]:
        rows = [(i, reading.encode(Request({"source": MANY[i % len(MANY)]}, SearchOptions()))) for i in numbers]
        return tuple(EngineRequest(i, 0, row, False, (caller,)) for i, row in rows)

    return encode


def admission_and_answer_order(event_queue: "queue.SimpleQueue[Event]", count: int) -> tuple[list[int], list[int]]:
    """The order in which texts got their slots, and in which they were answered."""
    admitted: list[int] = []
    answered: list[int] = []
    while len(answered) < count:
        match event_queue.get(timeout=60):
            case Scheduled(numbers):
                admitted += numbers
            case EngineOutputs() as event:
                answered += [number for number, _ in event.answers]
    return admitted, answered


def test_one_text_beside_a_thousand_does_not_wait_for_them(search, event_queue, texts):
    """All slots are taken, with hundreds queued: another caller's text gets a slot at once, and since it is stepped as
    often as all of them together it is answered before the first of them."""
    search.send(Add(texts("many", range(300))))
    search.send(Add(texts("one", range(1000, 1001))))
    search.start()
    admitted, answered = admission_and_answer_order(event_queue, 301)
    assert admitted.index(1000) <= SLOTS
    assert answered.index(1000) <= SLOTS
    assert sorted(admitted) == sorted(answered) == [*range(300), 1000]


def test_a_text_in_its_slot_is_not_joined_by_a_crowd(bundles, texts):
    """A step with more texts takes longer: another caller's thousand, which come later, are stepped apart from it."""
    scheduler = BatchScheduler(0, BundleTranslator(load(bundles.de_en), SLOTS, 5))
    (one,) = texts("one", range(1000, 1001))
    scheduler.add(one)
    scheduler.fill_reserved_slots()
    scheduler.fill_slots(scheduler.main_batch)
    (own,) = (batch for batch in scheduler.batches if 1000 in batch.callers_by_number)
    for text in texts("many", range(300)):
        scheduler.add(text)
    scheduler.fill_reserved_slots()
    scheduler.fill_slots(scheduler.main_batch)
    assert own.callers_by_number == {1000: "one"}
    assert set(scheduler.main_batch.callers_by_number) == set(range(SLOTS)), "the crowd has all slots"
    scheduler.remove_finished(own, [1000])
    for text in texts("one", range(1001, 1003)):
        scheduler.add(text)
    scheduler.fill_reserved_slots()
    assert own.callers_by_number == {1001: "one", 1002: "one"}, "and the next ones are stepped there at once"


def test_one_text_has_most_of_the_time_beside_any_number_of_crowds(bundles, texts):
    """Of the time of both batches it has two thirds, so that it takes half as long again as alone, and a step more."""
    scheduler = BatchScheduler(0, BundleTranslator(load(bundles.de_en), SLOTS, 5))
    for crowd in range(4):
        for text in texts(f"many {crowd}", range(100 * crowd, 100 * crowd + 100)):
            scheduler.add(text)
    for text in texts("one", range(1000, 1001)):
        scheduler.add(text)
    scheduler.fill_reserved_slots()
    scheduler.fill_slots(scheduler.main_batch)
    assert scheduler.main_batch.callers == 4 and scheduler.reserved_batch.callers_by_number == {1000: "one"}
    assert scheduler.weight(scheduler.reserved_batch) == 2 * scheduler.weight(scheduler.main_batch) == 8
    assert scheduler.weight(scheduler.retry_batch) == 1


def test_few_texts_of_callers_of_the_same_size_are_stepped_together(bundles, texts):
    """Batches are for crowds: callers with a few texts each share one."""
    scheduler = BatchScheduler(0, BundleTranslator(load(bundles.de_en), SLOTS, 5))
    for caller in range(4):
        for text in texts(str(caller), range(4 * caller, 4 * caller + 3)):
            scheduler.add(text)
        scheduler.fill_reserved_slots()
        scheduler.fill_slots(scheduler.main_batch)
    assert [len(batch.callers_by_number) for batch in scheduler.batches if batch.callers_by_number] == [12]


def test_two_callers_with_many_texts_share_the_slots_equally(search, event_queue, texts):
    search.send(Add(texts("a", range(100))))
    search.send(Add(texts("b", range(100, 200))))
    search.start()
    admitted, _ = admission_and_answer_order(event_queue, 200)
    for count in range(SLOTS, 160, 10):
        own = sum(number < 100 for number in admitted[:count])
        assert abs(count - 2 * own) <= 4, "but for texts of other lengths"


def test_a_text_in_flight_for_another_caller_does_not_wait_behind_own_texts(search, event_queue, texts):
    search.send(Add(texts("many", range(300))))
    search.send(AddCaller(frozenset({299}), "one"))
    search.start()
    admitted, answered = admission_and_answer_order(event_queue, 300)
    assert admitted.index(299) <= SLOTS and answered.index(299) <= SLOTS
    assert sorted(answered) == list(range(300)), "and it is searched once"


def test_the_queue_is_full_only_for_the_caller_that_fills_it():
    admission = Admission(300, 10_000)
    assert admission.exceeded_limit("many", 1000, 1000) is None, (
        "who has nothing waiting is taken, whatever it asks for"
    )
    admission.add("many", 1000, 1000)
    assert admission.exceeded_limit("many", 1, 1) == "queue_texts"
    assert admission.exceeded_limit("one", 1, 1) is None
    admission.add("one", 20, 20)
    assert admission.exceeded_limit("one", 130, 130) is None, "half of the queue is theirs"
    assert admission.exceeded_limit("one", 131, 131) == "queue_texts"
    assert admission.exceeded_limit("third", 500, 20_000) is None
    admission.add("one", -20, -20)
    admission.add("many", -1000, -1000)
    assert admission.by_caller == {} and not admission.waiting.texts


def test_the_total_queue_is_bounded():
    """For any number of callers, each with the largest allowed request."""
    admission, taken_in = Admission(100, 10**9), 0
    for i in range(10_000):
        if admission.exceeded_limit(str(i), 200, 1) is None:
            admission.add(str(i), 200, 1)
            taken_in += 200
    assert taken_in <= 4 * 100 + 200
