"""fp32 on a GPU, and pauses of garbage collection, for recordings of CUDA graphs."""

import gc
import threading

import torch

from seq2seq.devices import collection_paused


def test_fp32_is_not_rounded_to_tf32() -> None:
    """In no product on a GPU."""
    assert not torch.backends.cudnn.allow_tf32 and torch.get_float32_matmul_precision() == "highest"


def test_pauses_of_two_threads_take_turns() -> None:
    """Else the first that ends would end the other's too."""
    waiting, enabled = threading.Event(), []

    def second() -> None:
        waiting.set()
        with collection_paused():
            enabled.append(gc.isenabled())

    thread = threading.Thread(target=second)
    with collection_paused():
        thread.start()
        assert waiting.wait(10)
        thread.join(0.1)
        assert not enabled and not gc.isenabled()
    thread.join(10)
    assert enabled == [False] and gc.isenabled()


def test_collection_that_was_disabled_stays_disabled() -> None:
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
