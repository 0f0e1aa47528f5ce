"""Pauses of garbage collection, for recordings of CUDA graphs."""

import gc
import threading

from seq2seq.devices import collection_paused


def test_a_pause_ends_with_the_last_thread_in_it() -> None:
    entered, leave = threading.Event(), threading.Event()

    def longer() -> None:
        with collection_paused():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=longer)
    with collection_paused():
        thread.start()
        assert entered.wait(10)
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_collection_that_was_disabled_stays_disabled() -> None:
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
