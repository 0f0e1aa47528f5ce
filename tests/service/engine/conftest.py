"""A search in a worker thread, and its events."""

import queue
from collections.abc import Iterator

import pytest

from interlinear.bundle import load
from interlinear.generation.bundle_translator import BundleTranslator
from service.engine.protocol import Event
from service.engine.search_thread import SearchThread

SLOTS = 16


@pytest.fixture
def event_queue() -> "queue.SimpleQueue[Event]":
    return queue.SimpleQueue()


@pytest.fixture
def search(bundles, event_queue) -> Iterator[SearchThread]:
    """A worker thread with a model of 16 slots under the number 0; commands sent before its start are queued."""
    thread = SearchThread(event_queue.put, 1, 2)
    thread.load(0, BundleTranslator(load(bundles.de_en), SLOTS, 5))
    yield thread
    thread.stop(10)
    assert not thread.alive
