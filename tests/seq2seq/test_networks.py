"""Networks from pixels to regions: shapes, names, weights from files, and that no picture depends on another."""

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from seq2seq.config import ImageNetwork
from seq2seq.errors import DataError
from seq2seq.images.networks import ImageNetworkBase, build_network, grid_shape, load_weights

KINDS = ("small", "resnet50")


def network(kind: str, size: int = 64, frozen: bool = False, seed: int = 5) -> ImageNetworkBase:
    """A network whose every weight has an effect, the statistics' too."""
    torch.manual_seed(seed)
    made = build_network(ImageNetwork(kind=kind, size=size, frozen=frozen))
    for name, parameter in made.named_parameters():
        if parameter.dim() == 1:
            low = 0.5 if name.endswith(("weight", "running_var")) else -0.5
            torch.nn.init.uniform_(parameter, low, low + 1)
    return made


def pictures(count: int, size: int = 64) -> torch.Tensor:
    return torch.randint(0, 256, (count, size, size, 3), generator=torch.Generator().manual_seed(2), dtype=torch.uint8)


@pytest.mark.parametrize(
    ("kind", "size", "grid"),
    [
        ("small", 128, (8, 8, 128)), ("small", 100, (7, 7, 128)), ("small", 16, (1, 1, 128)),
        ("resnet50", 224, (7, 7, 2048)), ("resnet50", 128, (4, 4, 2048)), ("resnet50", 65, (3, 3, 2048)),
    ],
)  # fmt: skip
def test_the_grid_is_what_the_network_makes(kind: str, size: int, grid: tuple[int, int, int]):
    config = ImageNetwork(kind=kind, size=size)
    assert grid_shape(config) == grid
    made = build_network(config)
    assert (made.rows, made.columns, made.features) == grid
    with torch.inference_mode():
        assert made(pictures(1, size)).shape == (1, grid[0] * grid[1], grid[2])


@pytest.mark.parametrize("kind", KINDS)
def test_no_picture_depends_on_the_rest_of_its_batch(kind: str):
    """In training too, where batch normalisation would look at the batch."""
    made, four = network(kind), pictures(4)
    four[3] = 255
    for training in (True, False):
        made.train(training)
        with torch.no_grad():
            together = made(four)
            alone = torch.cat([made(four[i : i + 1]) for i in range(4)])
        torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)
    before = {name: tensor.clone() for name, tensor in made.state_dict().items()}
    made.train()
    made(four).sum().backward()
    assert all(torch.equal(before[name], tensor) for name, tensor in made.state_dict().items())


@pytest.mark.parametrize("kind", KINDS)
def test_regions_are_row_by_row(kind: str):
    """What changes in one corner of a picture changes the region of that corner the most."""
    made = network(kind, 256)
    plain = torch.full((1, 256, 256, 3), 120, dtype=torch.uint8)
    for row, column in ((0, 0), (0, -1), (-1, 0), (-1, -1)):
        other = plain.clone()
        top, left = row % 2 * 240, column % 2 * 240
        other[0, top : top + 16, left : left + 16] = 255
        with torch.no_grad():
            changed = (made(other) - made(plain)).abs().sum(-1).view(made.rows, made.columns)
        place = divmod(int(changed.argmax()), made.columns)
        assert max(abs(place[0] - row % made.rows), abs(place[1] - column % made.columns)) <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_unless_it_is_frozen(kind: str):
    free, frozen = network(kind), network(kind, frozen=True)
    free(pictures(2)).sum().backward()
    for name, parameter in free.named_parameters():
        assert (parameter.grad is None) == ("running" in name), name
    assert not any(parameter.requires_grad for parameter in frozen.parameters())
    assert not frozen(pictures(2)).requires_grad


def torchvision_names() -> list[str]:
    """The 320 names of torchvision's resnet50, by the rule of its blocks."""
    norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    names = ["conv1.weight", *(f"bn1.{part}" for part in norm)]
    for layer, blocks in ((1, 3), (2, 4), (3, 6), (4, 3)):
        for block in range(blocks):
            at = f"layer{layer}.{block}"
            for i in (1, 2, 3):
                names += [f"{at}.conv{i}.weight", *(f"{at}.bn{i}.{part}" for part in norm)]
            if block == 0:
                names += [f"{at}.downsample.0.weight", *(f"{at}.downsample.1.{part}" for part in norm)]
    return [*names, "fc.weight", "fc.bias"]


def test_resnet50_has_torchvisions_names_and_its_count():
    made = build_network(ImageNetwork(kind="resnet50", size=224))
    theirs = torchvision_names()
    assert len(theirs) == 320
    kept = [name for name in theirs if not name.startswith("fc.") and not name.endswith("num_batches_tracked")]
    assert set(made.state_dict()) == set(kept)
    trained = sum(p.numel() for name, p in made.named_parameters() if "running" not in name)
    assert trained == 23_508_032
    assert made.state_dict()["layer3.0.downsample.0.weight"].shape == (1024, 512, 1, 1)
    assert made.state_dict()["layer4.2.conv2.weight"].shape == (512, 512, 3, 3)


def test_resnet50_is_its_equations():
    """He et al. 2016 written out over the names of the weights."""
    made = network("resnet50").double()
    weights = made.state_dict()

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        mean, var, scale, shift = (
            weights[f"{name}.{part}"].view(1, -1, 1, 1) for part in ("running_mean", "running_var", "weight", "bias")
        )
        return (x - mean) / torch.sqrt(var + 1e-5) * scale + shift

    rgb = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]]).double()
    x = ((pictures(1).double() / 255 - rgb[0]) / rgb[1]).movedim(3, 1)
    x = norm(F.conv2d(x, weights["conv1.weight"], stride=2, padding=3), "bn1").relu()
    x = F.max_pool2d(x, 3, 2, 1)
    for layer, blocks in ((1, 3), (2, 4), (3, 6), (4, 3)):
        for block in range(blocks):
            at, stride = f"layer{layer}.{block}", 2 if layer > 1 and block == 0 else 1
            y = norm(F.conv2d(x, weights[f"{at}.conv1.weight"]), f"{at}.bn1").relu()
            y = norm(F.conv2d(y, weights[f"{at}.conv2.weight"], stride=stride, padding=1), f"{at}.bn2").relu()
            y = norm(F.conv2d(y, weights[f"{at}.conv3.weight"]), f"{at}.bn3")
            if block == 0:
                x = norm(F.conv2d(x, weights[f"{at}.downsample.0.weight"], stride=stride), f"{at}.downsample.1")
            x = (x + y).relu()
    expected = x.flatten(2).transpose(1, 2)
    torch.testing.assert_close(made(pictures(1)), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_weights_come_from_a_file_of_either_kind_and_a_classifier_is_left_aside(tmp_path: Path, suffix: str):
    given, into = network("resnet50"), network("resnet50", seed=6)
    weights = {name: tensor.contiguous() for name, tensor in given.state_dict().items()}
    extra = {name: torch.zeros(1) for name in torchvision_names() if name not in weights}
    assert len(extra) == 53 + 2
    path = tmp_path / f"resnet{suffix}"
    (save_file if suffix == ".safetensors" else torch.save)({**weights, **extra}, path)
    load_weights(into, path)
    assert all(torch.equal(tensor, weights[name]) for name, tensor in into.state_dict().items())


class Hostile:
    def __reduce__(self):
        return (Path("hostile-was-here").write_text, ("x",))


def test_weights_that_do_not_fit_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    small = network("small")
    weights = dict(small.state_dict())

    def refused(content: object, name: str = "w.pth") -> str:
        path = tmp_path / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            torch.save(content, path)
        with pytest.raises(DataError, match=re.escape(str(path))) as caught:
            load_weights(small, path)
        return caught.value.problem

    without = {name: tensor for name, tensor in weights.items() if name != "block.weight"}
    assert refused(without) == "has no tensor 'block.weight'"
    assert refused({**weights, "block.weight": torch.zeros(3)}) == (
        "the tensor 'block.weight' is (3,) instead of (128, 128, 3, 3)"
    )
    assert refused({**weights, "a.b": torch.zeros(3)}) == "has a tensor 'a.b', which the network does not"
    assert refused(network("resnet50").state_dict()) == "has no tensor 'downwards.0.weight'"
    assert refused([1, 2]) == "holds something else than tensors by name"
    assert refused({"state_dict": weights}) == "holds something else than tensors by name"
    assert refused({"x": Hostile()}) == "is not a file of weights alone"
    assert not Path("hostile-was-here").exists()
    assert refused(b"no weights") == "is not a file of weights alone"
    assert "cannot be read" in refused(b"no weights", "w.safetensors")
    with pytest.raises(DataError, match="there is no such file"):
        load_weights(small, tmp_path / "nowhere.safetensors")
