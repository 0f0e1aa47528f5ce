"""The step of a search, compiled: pointwise operations are fused, and Python and torch's dispatcher run once a step.

Sizes of a table are symbolic, so that a model's step is compiled twice: for one sentence, and for several.
"""

import inspect
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import torch
import torch.fx.experimental._config as symbolic_shapes

from interlinear.config import CompileChoice
from interlinear.errors import UsageError
from interlinear.models.layers.packed import make_products
from interlinear.models.memory import Memory
from interlinear.models.protocol import EncoderDecoder
from interlinear.search.state import SlotState
from interlinear.search.step import StepResult, search_step

MESSAGE_CHARACTERS = 300  # characters of a compiler's or driver's message

log = logging.getLogger("interlinear.search")

# Otherwise several models share one limit on compilations. Older versions of torch have no other way.
ISOLATED: dict[str, Any] = (
    {"isolate_recompiles": True} if "isolate_recompiles" in inspect.signature(torch.compile).parameters else {}
)


class CompiledStep:
    """`search_step`, compiled for one model when it is first called. Without a working compiler it warns and runs
    uncompiled.

    A step with a processor that is not `compiled` runs as it is.
    """

    def __init__(self, backend: str | Callable[..., Any] = "inductor") -> None:
        # The compiler must not treat sizes that are equal in the first step as one size. Set for the whole process:
        # setting it around each step would cost 25 us, and one thread would end it for another that compiles.
        symbolic_shapes.use_duck_shape = False
        self._compiled = torch.compile(search_step, fullgraph=True, dynamic=True, backend=backend, **ISOLATED)
        self._failed = False
        self._first = True

    def __call__(self, model: EncoderDecoder, memory: Memory, rows: SlotState) -> StepResult:
        given = (model, memory, rows)
        if self._failed or not all(processor.compiled for processor in rows.processors):
            return search_step(*given)
        if self._first:
            make_products(model.modules())
            self._first = False
        try:
            return self._compiled(*given)
        except RuntimeError as error:
            from torch._dynamo.exc import TorchDynamoException  # imports the compiler, which takes seconds

            if not isinstance(error, TorchDynamoException):
                raise
            self._failed = True
            cause = getattr(error, "inner_exception", error)
            log.warning("the search is not compiled, and slower: %s", message_of(cause))
            return search_step(*given)


def message_of(error: BaseException) -> str:
    """The beginning of an error's message, on one line."""
    return " ".join(str(error).split())[:MESSAGE_CHARACTERS]


@contextmanager
def compiling() -> Iterator[None]:
    """A context in which steps are compiled. After it, this process runs a step that is not yet compiled uncompiled, so
    that no request waits for a compiler."""
    torch.compiler.set_stance("default")
    try:
        yield
    finally:
        torch.compiler.set_stance("eager_on_recompile")


def resolve_compile(choice: CompileChoice, device: str) -> bool:
    """Whether a search on a device is compiled. `auto`: on a GPU; on a CPU it would lengthen every start.

    Raises UsageError if it is wanted and there is no compiler.
    """
    on_cpu = torch.device(device).type == "cpu"
    if choice == "on" and (missing := missing_compiler(device)):
        raise UsageError("--compile on", f"there is no {missing}", "install one, or search without it")
    return choice == "on" or (choice == "auto" and not on_cpu)


def has_compiler(device: str) -> bool:
    """Whether the programs that torch compiles with for a device are installed."""
    return missing_compiler(device) is None


def missing_compiler(device: str) -> str | None:
    """The programs that torch needs to compile for a device and does not find: a C++ compiler; for a GPU Triton, and a
    C compiler, which Triton needs for its launchers and looks up in the same way."""
    if torch.device(device).type == "cpu":
        return None if shutil.which(os.environ.get("CXX", "g++")) else "C++ compiler (g++, or what CXX names)"
    if find_spec("triton") is None:
        return "Triton"
    compilers = [os.environ["CC"]] if "CC" in os.environ else ["gcc", "clang"]
    return None if any(map(shutil.which, compilers)) else "C compiler (gcc, clang, or what CC names)"
