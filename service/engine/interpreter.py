"""Settings of the Python interpreter that keep its pauses short for a process that searches in one thread and answers
in others."""

import gc
import sys

# The search nearly always holds the GIL, and by default another thread waits 5 ms for it. It releases the GIL at every
# operator, some 120 times a step, and then waits itself for a thread that prepares texts: up to this time each.
SWITCH_SECONDS = 0.0001


def shorten_pauses() -> None:
    """Have threads take turns often, and leave all present objects out of garbage collection.

    A full collection holds the GIL, for 0.2 s with all that is imported. A request with many sentences can cause one.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.freeze()
