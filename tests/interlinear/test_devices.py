"""fp32 on a GPU, transfers as one, and pauses of garbage collection for recordings of CUDA graphs."""

import gc
import threading

import torch

from interlinear.devices import collection_paused, copied_as_one


def test_fp32_is_not_rounded_to_tf32() -> None:
    """In no product on a GPU."""
    assert not torch.backends.cudnn.allow_tf32 and torch.get_float32_matmul_precision() == "highest"


def test_tensors_are_copied_as_one() -> None:
    """Of any types, sizes and strides; what has no elements too."""
    torch.manual_seed(1)
    tensors = [
        torch.tensor([True, False, True]), torch.randn(2, 3).t(), torch.randint(9, (5,)), torch.zeros(0, 4),
        torch.tensor(7.0, dtype=torch.float64), torch.randn(3).bfloat16(), torch.randint(9, (2, 2), dtype=torch.uint8),
    ]  # fmt: skip
    copies: list[torch.Tensor] = []

    def copy(whole: torch.Tensor) -> torch.Tensor:
        copies.append(whole.clone())
        return copies[-1]

    torch.testing.assert_close(copied_as_one(tensors, copy), tensors, rtol=0, atol=0)
    assert len(copies) == 1 and copied_as_one([], copy) == []


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
