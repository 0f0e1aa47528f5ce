"""The worker thread that searches: admission order and events."""

import queue
import threading
import time
from dataclasses import replace

import pytest

from interlinear.bundle import load
from interlinear.generation.bundle_translator import BundleTranslator
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import EncodedRequest, Request
from interlinear.search import SearchOptions
from interlinear.search.captured import CapturedStep
from interlinear.text import Encoded
from service.engine.protocol import Abort, Add, EngineOutputs, EngineRequest, Event, Ping, Pong, Scheduled, SearchFailed
from service.engine.scheduler import MAX_HELD_STEPS
from service.engine.search_thread import HEARTBEAT_SECONDS, SearchThread
from tests.interlinear.search.test_captured import Recomputed
from tests.service.conftest import until
from tests.service.engine.conftest import SLOTS
from tests.service.engine.test_engine import MANY, before_its_layers


@pytest.fixture
def search(search: SearchThread) -> SearchThread:
    search.start()
    return search


def encoded_texts(search: SearchThread, count: int) -> list[EncodedRequest]:
    """Encoded texts of mixed lengths."""
    reading = scheduler_of(search).translator
    texts = [" ".join(MANY[i : i + 1 + i % 4]) for i in range(count)]
    return [reading.encode(Request({"source": text}, SearchOptions(beam=1 + i % 5))) for i, text in enumerate(texts)]


def send_texts(search: SearchThread, count: int) -> None:
    """Send texts to the worker."""
    search.send(
        Add(tuple(EngineRequest(i, 0, row, streamed=False) for i, row in enumerate(encoded_texts(search, count))))
    )


def scheduler_of(search: SearchThread, number: int = 0):
    until(lambda: number in search.schedulers)
    return search.schedulers[number]


def collect_events(event_queue: "queue.SimpleQueue[Event]", texts: int) -> list[Event]:
    """Events until so many texts are answered."""
    events: list[Event] = []
    while sum(len(event.answers) for event in events if isinstance(event, EngineOutputs)) < texts:
        events.append(event_queue.get(timeout=60))
    return events


def test_texts_are_admitted_together_if_more_wait_than_fit(search, event_queue):
    send_texts(search, 100)
    events = collect_events(event_queue, 100)
    sizes = [len(event.numbers) for event in events if isinstance(event, Scheduled)]
    assert sizes[0] == SLOTS and sum(sizes) == 100
    assert len(sizes) < 100 / 3, "a quarter of 16 slots at a time, but after some steps what there is"
    steps = sum(event.steps for event in events if isinstance(event, EngineOutputs))
    assert steps > len(sizes) and len(sizes) >= 100 / SLOTS
    numbers = [number for event in events if isinstance(event, Scheduled) for number in event.numbers]
    assert numbers == list(range(100)), "in their order"


def test_a_text_is_admitted_at_once_if_slots_are_free(search, event_queue):
    send_texts(search, SLOTS - 1)
    assert len(event_queue.get(timeout=60).numbers) == SLOTS - 1
    row = search.schedulers[0].translator.encode(Request({"source": "Ein Kind."}, SearchOptions()))
    search.send(Add((EngineRequest(99, 0, row, streamed=False),)))
    events = collect_events(event_queue, SLOTS)
    assert [event.numbers for event in events if isinstance(event, Scheduled)] == [(99,)]


def test_waiting_texts_are_admitted_after_some_steps_though_few_slots_are_free(search, event_queue):
    """Otherwise texts of which all but one are cancelled would keep the next ones waiting until their end."""
    send_texts(search, SLOTS + 1)
    event_queue.get(timeout=60)
    search.send(Abort(frozenset({0})))
    steps = 0
    while not isinstance(event := event_queue.get(timeout=60), Scheduled):
        assert isinstance(event, EngineOutputs)
        steps += event.steps
    assert event.numbers == (SLOTS,)
    assert steps <= MAX_HELD_STEPS + 2


def test_commands_are_handled_between_the_steps_of_two_models(bundles, search, event_queue):
    """New requests do not wait for the steps of all models, each of which may be slow."""
    search.load(1, BundleTranslator(load(bundles.de_en), SLOTS, 5))
    first, second = (scheduler_of(search, number) for number in (0, 1))
    encoded_texts = [
        scheduler.translator.encode(Request({"source": MANY[0]}, SearchOptions())) for scheduler in (first, second)
    ]
    with before_its_layers(first.translator.bundle.model, lambda: search.send(Ping())):
        search.send(Add(tuple(EngineRequest(i, i, row, streamed=False) for i, row in enumerate(encoded_texts))))
        events = collect_events(event_queue, 2)
    kinds = [event.numbers if isinstance(event, Scheduled) else type(event) for event in events]
    assert kinds.index((0,)) < kinds.index(Pong) < kinds.index((1,))


def test_heartbeats_rise_when_idle_and_stop_when_hanging(search, event_queue):
    before = search.heartbeats
    until(lambda: search.heartbeats > before + 4)
    hangs, goes_on = threading.Event(), threading.Event()
    with before_its_layers(scheduler_of(search).translator.bundle.model, lambda: hangs.set() or goes_on.wait()):
        send_texts(search, 1)
        hangs.wait()
        before = search.heartbeats
        time.sleep(4 * HEARTBEAT_SECONDS)
        assert search.heartbeats == before
        assert "threading.py" in search.location
        goes_on.set()
        collect_events(event_queue, 1)
    assert search.heartbeats > before


@pytest.mark.parametrize("poisonous", [{3}, {0, 9, 30}])
def test_a_failing_step_fails_only_the_text_that_caused_it(search, event_queue, bundles, poisonous):
    """A word id that the model does not have, among the first texts, and among the queued ones."""
    good = encoded_texts(search, 40)
    bad = {i: replace(good[i], sources={"source": Encoded([10**6], [(0, 1)])}) for i in poisonous}
    search.send(Add(tuple(EngineRequest(i, 0, bad.get(i, row), streamed=False) for i, row in enumerate(good))))
    events = collect_events(event_queue, 40 - len(poisonous))
    failed = [number for event in events if isinstance(event, SearchFailed) for number in event.numbers]
    assert sorted(failed) == sorted(poisonous)
    found = dict(one for event in events if isinstance(event, EngineOutputs) for one in event.answers)
    expected = SequenceGenerator(load(bundles.de_en), width=5).generate([row.request for row in good])
    for i, answer in enumerate(expected):
        assert i in poisonous or found[i].candidates[0].ids == answer.candidates[0].ids
    reported_scheduled = [number for event in events if isinstance(event, Scheduled) for number in event.numbers]
    assert sorted(reported_scheduled) == list(range(40)), "each told once, also those that were searched again"
    scheduler = search.schedulers[0]
    assert not (
        scheduler.texts
        or scheduler.to_retry
        or scheduler.streamed
        or scheduler.reported_scheduled
        or len(scheduler.waiting)
    )


def test_a_restarted_text_sends_no_prefix_twice(search, event_queue):
    scheduler, sent = scheduler_of(search), []
    texts = [" ".join(MANY[i : i + 6]) for i in range(2)]
    good = [scheduler.translator.encode(Request({"source": text}, SearchOptions(beam=1))) for text in texts]
    bad = replace(good[0], sources={"source": Encoded([10**6], [(0, 1)])})

    def add_a_bad_one() -> None:
        if not sent and scheduler.streamed.get(0, 0) > 1:
            sent.append(search.send(Add((EngineRequest(2, 0, bad, streamed=True),))))

    with before_its_layers(scheduler.translator.bundle.model, add_a_bad_one):
        search.send(Add(tuple(EngineRequest(i, 0, row, streamed=True) for i, row in enumerate(good))))
        events = collect_events(event_queue, 2)
    while not any(isinstance(event, SearchFailed) for event in events):
        events.append(event_queue.get(timeout=60))
    outputs = [event for event in events if isinstance(event, EngineOutputs)]
    for number in range(2):
        lengths = [len(event.prefixes[number]) for event in outputs if number in event.prefixes]
        assert len(lengths) > 2 and lengths == sorted(set(lengths))


@pytest.mark.parametrize("texts_count", [1, 3, SLOTS + 1])
def test_each_number_of_texts_up_to_the_setting_takes_a_step_before_the_model_is_ready(bundles, texts_count):
    translator, stepped = BundleTranslator(load(bundles.de_en), SLOTS, 5), set()
    with before_its_layers(translator.bundle.model, lambda: stepped.add(translator.active)):
        translator.warm_up(texts_count)
    assert stepped - {0} == set(range(1, min(texts_count, SLOTS) + 1))
    assert translator.active == 0


@pytest.mark.parametrize("name", ["de-en", "headlines"])
def test_a_captured_search_captures_common_sizes_before_it_is_ready(bundles, name):
    """Every number of texts up to the slots, of up to 64 tokens; and what is captured finds the same."""
    bundle = load(bundles.folders[name])
    capture = Recomputed()
    translator = BundleTranslator(replace(bundle, search_step=CapturedStep(capture=capture)), SLOTS, 5)
    translator.warm_up(2)
    captured, replays = capture.captures, capture.replays
    source, *_ = bundle.card.model.texts
    texts = [Request({source: " ".join(MANY[i : i + 3])[: 1 + i]}, SearchOptions(beam=1 + i % 5)) for i in range(40)]
    found = list(translator.generate(texts))
    assert capture.captures == captured and capture.replays > replays
    expected = SequenceGenerator(bundle, SLOTS, 5).generate(texts)
    assert [result.candidates[0].text for result in found] == [result.candidates[0].text for result in expected]
