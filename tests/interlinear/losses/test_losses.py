"""Chunked losses and their gradients equal the definitions."""

from collections import Counter

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from interlinear.losses import cross_entropy
from interlinear.losses.bag_of_words import bag_of_words


def same_gradients(ours: Tensor, theirs: Tensor, *inputs: Tensor) -> None:
    gradients = [torch.autograd.grad(each, inputs) for each in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-10)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("chunk", [1, 40, 2**23])
def test_chunks_add_up_to_the_definition(monkeypatch: pytest.MonkeyPatch, smoothing: float, chunk: int) -> None:
    monkeypatch.setattr(cross_entropy, "CHUNK", chunk)
    torch.manual_seed(0)
    r, W, b = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in [(11, 4), (13, 4), (13,)])
    y = torch.randint(13, (11,))

    loss = cross_entropy.chunked_cross_entropy(r, W, b, y, smoothing)
    log_p = torch.log_softmax(r @ W.T + b, -1)
    nats = -sum(log_p[i, y[i]] for i in range(11))
    objective = (1 - smoothing) * nats - smoothing * log_p.mean(1).sum()

    torch.testing.assert_close(loss.nats, nats, rtol=0, atol=1e-10)
    torch.testing.assert_close(loss.objective, objective, rtol=0, atol=1e-10)
    same_gradients(2 * loss.objective, 2 * objective, r, W, b)


@pytest.mark.parametrize("chunk", [1, 40, 2**23])
def test_rows_that_do_not_count_are_left_out(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """Loss and gradients, the others' readouts included, in chunks and blocks of any size."""
    monkeypatch.setattr(cross_entropy, "CHUNK", chunk)
    monkeypatch.setattr(cross_entropy, "BLOCK", 2 * 13)
    torch.manual_seed(0)
    r, W, b = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in [(11, 4), (13, 4), (13,)])
    y, counted = torch.randint(13, (11,)), torch.tensor([1, 0, 1, 1, 0, 0, 0, 1, 1, 1, 0]).bool()
    masked = cross_entropy.chunked_cross_entropy(r, W, b, y, 0.1, counted)
    chosen = cross_entropy.chunked_cross_entropy(r[counted], W, b, y[counted], 0.1)
    for ours, theirs in ((masked.nats, chosen.nats), (masked.objective, chosen.objective)):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    gradients = [torch.autograd.grad(loss.objective, [r, W, b]) for loss in (masked, chosen)]
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-10)
    assert (gradients[0][0][~counted] == 0).all()


def test_gradients_under_autocast_equal_fp32_within_bf16_precision() -> None:
    torch.manual_seed(0)
    r, W, b = (torch.randn(*s, requires_grad=True) for s in [(50, 32), (80, 32), (80,)])
    y = torch.randint(80, (50,))
    full = torch.autograd.grad(cross_entropy.chunked_cross_entropy(r, W, b, y).objective, [r, W, b])
    with torch.autocast("cpu", torch.bfloat16):
        loss = cross_entropy.chunked_cross_entropy(r, W, b, y).objective
    assert loss.dtype == torch.float32
    for ours, theirs in zip(torch.autograd.grad(loss, [r, W, b]), full, strict=True):
        assert (ours - theirs).norm() < 0.02 * theirs.norm()


def test_the_loss_without_words_is_zero() -> None:
    r, W, b = torch.zeros(0, 4, requires_grad=True), torch.randn(9, 4, requires_grad=True), torch.zeros(9)
    loss = cross_entropy.chunked_cross_entropy(r, W, b, torch.zeros(0, dtype=torch.long))
    loss.objective.backward()
    assert float(loss.objective.detach()) == 0 and W.grad is not None and float(W.grad.abs().sum()) == 0


@pytest.mark.parametrize("chunk", [1, 40, 2**23])
def test_log_likelihoods_and_gradients_equal_the_definitions(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(cross_entropy, "CHUNK", chunk)
    torch.manual_seed(0)
    r, W, b = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in [(11, 4), (13, 4), (13,)])
    y, weights = torch.randint(13, (11,)), torch.randn(11, dtype=torch.float64)

    ours = cross_entropy.log_likelihoods(r, W, b, y)
    theirs = torch.log_softmax(r @ W.T + b, -1).gather(1, y[:, None]).squeeze(1)

    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    same_gradients((weights * ours).sum(), (weights * theirs).sum(), r, W, b)


@pytest.mark.parametrize("block", [1, 200, 2**23])
@pytest.mark.parametrize("chunk", [1, 200, 2**23])
@pytest.mark.parametrize("on_host", [True, False])
def test_the_bag_of_words_loss_equals_its_definition(
    monkeypatch: pytest.MonkeyPatch, chunk: int, block: int, on_host: bool
) -> None:
    """Kiyono et al. 2018, equations 13, 16 and 18, for sentences with and without steps, in chunks and blocks of any
    size, with logits of the steps that count or of all."""
    monkeypatch.setattr(cross_entropy, "CHUNK", chunk)
    monkeypatch.setattr(cross_entropy, "BLOCK", block)
    torch.manual_seed(0)
    z, W, b = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in [(5, 6, 4), (13, 4), (13,)])
    steps = torch.rand(5, 6, dtype=torch.float64) * (torch.arange(6) < torch.tensor([[6], [3], [0], [1], [5]]))
    words = torch.randint(1, 13, (5, 7)) * (torch.arange(7) < torch.tensor([[7], [2], [3], [0], [5]]))

    ours = bag_of_words(z, W, b, steps, words, 10.0, on_host)
    q = (steps[..., None] * torch.softmax(z @ W.T + b, -1)).sum(1)
    bags = torch.stack([torch.bincount(own[own > 0], minlength=13) for own in words])
    theirs = ((q - bags) ** 2).sum() / 10.0

    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    same_gradients(2 * ours, 2 * theirs, z, W, b)


def test_the_bag_of_words_loss_under_autocast_equals_fp32_within_bf16_precision() -> None:
    torch.manual_seed(0)
    z, W, b = (torch.randn(*s, requires_grad=True) for s in [(8, 20, 32), (80, 32), (80,)])
    steps, words = torch.ones(8, 20), torch.randint(1, 80, (8, 20))
    full = torch.autograd.grad(bag_of_words(z, W, b, steps, words, 10.0), [z, W, b])
    with torch.autocast("cpu", torch.bfloat16):
        loss = bag_of_words(z, W, b, steps, words, 10.0)
    assert loss.dtype == torch.float32
    for ours, theirs in zip(torch.autograd.grad(loss, [z, W, b]), full, strict=True):
        assert (ours - theirs).norm() < 0.02 * theirs.norm()


class CountOperators(TorchDispatchMode):
    """Counts the operators that are called, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.counts[function.overloadpacket.__name__] += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(("device", "blocks"), [("cpu", 10), ("meta", 2)])
def test_a_chunk_is_computed_in_blocks_on_a_cpu_only(monkeypatch: pytest.MonkeyPatch, device: str, blocks: int) -> None:
    """On a GPU, each block would be a few more kernels to launch; the meta device counts as one."""
    monkeypatch.setattr(cross_entropy, "CHUNK", 10 * 13)
    monkeypatch.setattr(cross_entropy, "BLOCK", 2 * 13)
    r, W, b = (torch.zeros(*s, device=device, requires_grad=True) for s in [(20, 4), (13, 4), (13,)])
    y = torch.zeros(20, dtype=torch.long, device=device)
    with CountOperators() as entropy:
        cross_entropy.chunked_cross_entropy(r, W, b, y, 0.1)
    with CountOperators() as likelihoods:
        cross_entropy.log_likelihoods(r, W, b, y)
    with CountOperators() as bags:
        bag_of_words(r.view(20, 1, 4), W, b, torch.ones(20, 1), y[:, None], 10.0)
    assert [entropy.counts["gather"], likelihoods.counts["gather"], bags.counts["_softmax"]] == [blocks] * 3
