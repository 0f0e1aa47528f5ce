"""Callback in Ray Train's controller: reports states and failures, and has a state saved before a group is resized."""

import logging
import time
from typing import Any

import ray
from ray.exceptions import RayError
from ray.train.v2._internal.exceptions import WorkerHealthCheckFailedError, WorkerHealthCheckTimeoutError
from ray.train.v2._internal.execution.callback import ControllerCallback
from ray.train.v2._internal.execution.context import TrainRunContext
from ray.train.v2._internal.execution.controller.state import (
    PreemptingState,
    ResizingState,
    RestartingState,
    TrainControllerState,
)
from ray.train.v2._internal.execution.scaling_policy import ResizeDecision
from ray.train.v2.api.exceptions import TrainingFailedError, WorkerGroupError

SAVE_TIMEOUT = 60.0  # seconds that a resize waits for a state; after that, the updates since the last state are lost
PREEMPTION_SAVE_INTERVAL = 5.0  # seconds between states while a node is about to be preempted


class ControllerMonitor(ControllerCallback):
    """Runs in the controller, an actor on the driver's node. Ray accepts such callbacks, but marks them as internal."""

    def __init__(self, control: Any) -> None:
        self.control = control
        self.resizing = False
        self.save_requested_at = 0.0

    def after_controller_start(self, train_run_context: TrainRunContext) -> None:
        self.control.set_controller.remote(ray.get_runtime_context().current_actor)

    def after_controller_state_update(
        self, previous_state: TrainControllerState, current_state: TrainControllerState
    ) -> None:
        self.control.set_state.remote(type(current_state).__name__)
        # a group that failed to start is rescheduled instead: it waits for nodes
        if isinstance(current_state, RestartingState):
            self.control.report_failure.remote(*failure_details(current_state.training_failed_error))
        self.resizing = isinstance(previous_state, ResizingState)
        if (
            isinstance(current_state, PreemptingState)
            and time.monotonic() - self.save_requested_at > PREEMPTION_SAVE_INTERVAL
        ):
            self.save_requested_at = time.monotonic()
            self.control.request_save.remote()

    def before_controller_execute_resize_decision(self, resize_decision: ResizeDecision) -> None:
        """A running group is about to be replaced by one of another size."""
        if not self.resizing:
            return
        deadline = time.monotonic() + SAVE_TIMEOUT
        try:
            request = ray.get(self.control.request_save.remote(), timeout=SAVE_TIMEOUT)
            while (
                ray.get(self.control.get_saved.remote(), timeout=SAVE_TIMEOUT) < request and time.monotonic() < deadline
            ):
                time.sleep(0.1)
        except RayError as error:
            logging.getLogger("ray.train").warning("resized without a new state: %s", error)


def failure_details(failed: TrainingFailedError) -> tuple[list[int], str, str]:
    """The ranks whose processes have died or do not answer; the error of the others in one line; and the whole
    error."""
    failures = failed.worker_failures if isinstance(failed, WorkerGroupError) else {}
    death_errors = (WorkerHealthCheckFailedError, WorkerHealthCheckTimeoutError)
    dead = [rank for rank, error in failures.items() if isinstance(error, death_errors)]
    others = [error for rank, error in failures.items() if rank not in dead]
    message = str(others[0] if others else failed).strip().partition("\n")[0]
    return dead, message[:500].rstrip("."), str(failed)
