"""The recurrence of simpler simple recurrent units over known inputs, with a backward pass of its own.

Plain autograd would keep every step's intermediate results and add a gradient of the whole sequence at each step. A
step is one operation on all sequences: on a CPU that takes less time than doubling, or than chunks side by side.

Axes: N sequences, L positions, D size.
"""

from typing import Any

import torch
from torch import Tensor


def linear_recurrence(forget_NLD: Tensor, inputs_NLD: Tensor) -> Tensor:
    """c_t = f_t c_{t-1} + (1 - f_t) x_t for every position, (N, L, D), with c_0 = 0.

    Exact for f_t = 0, which copies x_t, and f_t = 1, which copies c_{t-1}: nothing is divided by a product of f.
    """
    states_NLD: Tensor = _LinearRecurrence.apply(forget_NLD, inputs_NLD)
    return states_NLD


class _LinearRecurrence(torch.autograd.Function):
    """Backward is the same recurrence from the end: with g_t the gradient of c_t in all later states,

        g_t = dc_t + f_{t+1} g_{t+1}      df_t = g_t (c_{t-1} - x_t)      dx_t = g_t (1 - f_t)

    It keeps f, x and c, O(N L D).
    """

    @staticmethod
    def forward(ctx: Any, forget_NLD: Tensor, inputs_NLD: Tensor) -> Tensor:
        states_NLD = torch.empty_like(inputs_NLD)
        before_ND = torch.zeros_like(inputs_NLD[:, 0])
        steps = (forget_NLD, inputs_NLD, states_NLD)
        for forget_ND, input_ND, state_ND in zip(*(each.unbind(1) for each in steps), strict=True):
            torch.lerp(input_ND, before_ND, forget_ND, out=state_ND)
            before_ND = state_ND
        ctx.save_for_backward(forget_NLD, inputs_NLD, states_NLD)
        return states_NLD

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor]:
        forget_NLD, inputs_NLD, states_NLD = ctx.saved_tensors
        gradient_NLD = upstream[0].clone(memory_format=torch.contiguous_format)
        gradients, forgets = gradient_NLD.unbind(1), forget_NLD.unbind(1)
        for t in range(len(gradients) - 2, -1, -1):
            gradients[t].addcmul_(forgets[t + 1], gradients[t + 1])
        before_NLD = torch.nn.functional.pad(states_NLD, (0, 0, 1, -1))
        return gradient_NLD * (before_NLD - inputs_NLD), gradient_NLD * (1 - forget_NLD)
