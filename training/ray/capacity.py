"""CPUs, GPUs and memory of this machine, the memory that a worker needs to train a recipe's model, and how many workers
that makes."""

import os
from pathlib import Path

import psutil

from interlinear.config import ImageGrid
from interlinear.errors import UsageError
from training.data.prepare.prepared import TARGET, PreparedData
from training.events import TrainingJob
from training.loop.checkpoints.checkpoint_manager import CheckpointManager
from training.recipe import Recipe

GIB = 2**30
PROCESS_BYTES = 700 * 2**20  # resident memory of a Ray worker that has imported torch and loaded no data
MEMORY_SHARE = 0.75  # share of the free memory for the default number of workers: their batches need some too
ROWS_PER_WORKER = 8  # pairs of a batch; with fewer, a worker sums gradients for longer than it computes them
PARAMETER_BYTES = 4 * 5  # weight, gradient, all-reduce buffer, two moments of the optimizer
# assumed if only the data defines the shape: features of a large network
LARGEST_GRID = ImageGrid(rows=7, columns=7, features=2048)

_CGROUP = Path("/sys/fs/cgroup")


def available_cpus() -> int:
    """The CPUs that this process may use, limited by its affinity and its control group's quota."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _read(_CGROUP / "cpu.max").partition(" ")
    if quota.isdigit() and period.isdigit():
        usable = min(usable, max(1, int(quota) // int(period)))
    return usable


def available_memory() -> int:
    """Bytes available to new processes: the machine's available memory, limited by what the control group leaves."""
    free = psutil.virtual_memory().available
    limit, used = _read(_CGROUP / "memory.max"), _read(_CGROUP / "memory.current")
    if limit.isdigit() and used.isdigit():
        free = min(free, max(0, int(limit) - int(used)))
    return int(free)


def worker_bytes(recipe: Recipe) -> int:
    """Bytes that one worker needs at least: its process, and the parameters as training keeps them, with vocabularies
    of the recipe's full size."""
    from interlinear.models.parameter_shapes import parameter_counts

    sizes = {name: source.vocabulary for name, source in recipe.texts.items()} | {"target": recipe.target.vocabulary}
    grids = {name: LARGEST_GRID for name, image in recipe.images.items() if image.encoder == "grid"}
    return PROCESS_BYTES + PARAMETER_BYTES * sum(parameter_counts(recipe.model_for(sizes, grids)).values())


def default_workers(job: TrainingJob) -> tuple[int, str]:
    """The number of workers for a training on this machine's CPUs where the user gave none, and a sentence about it.

    One worker of one thread for every processor: threads within one worker wait for each other in every small
    operation. Fewer where memory or the batch does not suffice for that number. A resumed run keeps its number, on
    which the random numbers of dropout depend.
    """
    processors = available_cpus()
    by_memory = int(MEMORY_SHARE * available_memory() / worker_bytes(job.recipe))
    rows = batch_rows(job)
    workers = max(1, min(processors, by_memory, rows // ROWS_PER_WORKER))
    before = CheckpointManager(job.run, keep=1).newest_workers() if job.resume else 0
    if 0 < before <= workers:
        return before, f"{_count(before, 'worker')}, as before"
    on = f"{_count(workers, 'worker')} on {_count(processors, 'processor')}"
    if workers == processors:
        return workers, f"{_count(workers, 'worker')}, one for each processor"
    if by_memory <= workers:
        return workers, f"{on}, since the free memory suffices for no more"
    return workers, f"{on}, since a batch has about {_count(rows, 'pair')}"


def batch_rows(job: TrainingJob) -> int:
    """The approximate number of pairs in an update's batch."""
    train, settings = PreparedData.load(job.prepared).record.splits["train"], job.recipe.training
    if settings.batch_tokens is None:
        return min(settings.batch_sentences or 1, train.rows)
    return min(settings.batch_tokens * train.rows // (train.tokens[TARGET] + train.rows), train.rows)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def trials_at_once(recipe: Recipe, requested: int | None, gpu: bool, per_gpu: int = 1) -> int:
    """The number of concurrent trials of a tuning on this machine: as requested, else one for each CPU (or `per_gpu`
    for each GPU, and no more than CPUs), where memory suffices. Raises UsageError where this machine has too little
    for the requested ones, or for one."""
    check_workers(recipe, requested or 1, gpu, "--at-once", per_gpu)
    by_memory = int(MEMORY_SHARE * available_memory() / worker_bytes(recipe))
    by_device = min(device_count(gpu) * per_gpu, available_cpus())
    return requested or max(1, min(by_device, by_memory))


def device_count(gpu: bool) -> int:
    """The CPUs that this process may use, or the GPUs."""
    if not gpu:
        return available_cpus()
    import torch

    return torch.cuda.device_count()


def check_workers(recipe: Recipe, workers: int, gpu: bool, option: str = "--workers", per_gpu: int = 1) -> None:
    """Raises UsageError, which names the option, where this machine has too few CPUs (or GPUs, each for `per_gpu`
    workers), or too little memory."""
    needed, free = workers * worker_bytes(recipe), available_memory()
    devices, unit = device_count(gpu), "GPU" if gpu else "processor"
    most = devices * per_gpu
    if workers > most:
        need = f"each needs a {unit} of its own" if per_gpu == 1 else f"{per_gpu} share a {unit}"
        raise UsageError(
            f"{option} {workers}",
            f"{need}, and this machine has {devices}",
            (f"ask for {most} at most, or " if most else "") + "train on a cluster: --address",
        )
    if needed > free:
        raise UsageError(
            f"{option} {workers}",
            f"this model needs {needed / GIB:.1f} GiB of memory for them, and {free / GIB:.1f} GiB are free",
            "ask for fewer, make the model smaller, or train on a cluster: --address",
        )


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
