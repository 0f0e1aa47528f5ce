"""A process in which torch believes that there is a CUDA device. This module does not import torch: torch asks once,
when it is imported, whether there is one."""

import ctypes
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest

P = ParamSpec("P")
Answer = TypeVar("Answer")

SOURCE = Path(__file__).with_name("guard.cpp")


def on_a_pretended_gpu(function: Callable[P, Answer], *arguments: P.args, **keywords: P.kwargs) -> Answer:
    """Call a function of a module in the process with a pretended device; raises what it raises. Skips the test where
    there is no C++ compiler."""
    if shutil.which("g++") is None:
        pytest.skip("there is no C++ compiler")
    return _process().submit(function, *arguments, **keywords).result()


@cache
def _process() -> ProcessPoolExecutor:
    """One for all tests of this process, since it imports torch and the project first."""
    return ProcessPoolExecutor(1, get_context("spawn"), initializer=_register)


def _register() -> None:
    """Compile the device guard (2 s) and load it before torch, whose build for CUDA has one."""
    spec = find_spec("torch")
    assert spec and spec.origin
    torch = Path(spec.origin).parent
    if (torch / "lib" / "libtorch_cuda.so").exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "guard.so"
        options = ["-shared", "-fPIC", "-std=c++20", "-O0", f"-I{torch}/include", f"-L{torch}/lib"]
        libraries = ["-lc10", "-ltorch_cpu", f"-Wl,-rpath,{torch}/lib"]
        subprocess.run(["g++", *options, str(SOURCE), "-o", str(library), *libraries], check=True)
        ctypes.CDLL(str(torch / "lib" / "libtorch_cpu.so"), ctypes.RTLD_GLOBAL)
        ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)
