"""The machine that a training or tuning ran on, for its record."""

import os
import platform

import torch


def describe_machine() -> str:
    """Description of this machine: cores, architecture, GPUs, version of torch."""
    cores = len(os.sched_getaffinity(0))
    gpus = f", {torch.cuda.device_count()} x {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    return f"{cores} {'core' if cores == 1 else 'cores'}, {platform.machine()}{gpus}, torch {torch.__version__}"
