"""The state of a training: its progress, and the tensors of model and optimizer."""

from dataclasses import dataclass
from typing import Any

import torch
from pydantic import BaseModel
from torch import Tensor


class BestEpoch(BaseModel):
    """An epoch whose weights are kept, and its dev score (higher is better)."""

    epoch: int
    score: float
    sha256: str = ""  # of the weights' file; empty until they are saved


class TrainingProgress(BaseModel):
    """Progress of a training: everything that is resumed and is not a tensor."""

    recipe: dict[str, Any]
    data: str
    fingerprint: str  # of the prepared data
    epoch: int = 1
    position: int = 0  # updates done in this epoch
    updates: int = 0  # updates done in total
    halvings: int = 0
    waited: int = 0
    best: float | None = None
    stale: int = 0  # epochs since the best one
    kept: list[BestEpoch] = []
    objective: float = 0.0  # sums over this epoch so far, for its report
    nats: float = 0.0
    guide_nats: float = 0.0
    linked_words: int = 0
    tokens: int = 0
    sentences: int = 0
    workers: int = 0  # of the group that saved this state; 0 before the first
    split_batches: int = 0  # how many times a worker had to split its part of a batch for lack of memory, so far
    seconds: float = 0.0  # of training, in total
    began: float = 0.0  # `seconds` at the start of this epoch
    done: bool = False


@dataclass(frozen=True)
class TrainingState:
    """Progress with the tensors of the model (`model.NAME`) and the optimizer (`optimizer.INDEX.NAME`)."""

    progress: TrainingProgress
    tensors: dict[str, Tensor]


def collect_tensors(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The model's and optimizer's tensors by name, on the CPU. Shared parameters have one name."""
    tensors = {f"model.{name}": tensor.detach() for name, tensor in model.named_parameters()}
    for index, entries in optimizer.state_dict()["state"].items():
        for name, value in entries.items():
            tensors[f"optimizer.{index}.{name}"] = torch.as_tensor(value).detach()
    return {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}


@torch.no_grad()
def restore_tensors(tensors: dict[str, Tensor], model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Copy a state's tensors into the model and the optimizer; the inverse of `collect_tensors`."""
    for name, parameter in model.named_parameters():
        parameter.copy_(tensors[f"model.{name}"])
    entries: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, key = name.split(".", 2)
            entries.setdefault(int(index), {})[key] = tensor
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": entries, "param_groups": groups})
