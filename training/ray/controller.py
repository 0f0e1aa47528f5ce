"""What Ray Train's controller is made to tell, and to wait for: a state is saved before it ends a group on purpose."""

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

SAVING = 60.0  # seconds that a resize waits for a state; then it costs what was done since the last one
HURRY = 5.0  # seconds between states while a node is about to be taken


class Watch(ControllerCallback):
    """Goes with the controller, an actor on the driver's node. Ray takes such callbacks, and calls them internal."""

    def __init__(self, mailbox: Any) -> None:
        self.mailbox = mailbox
        self.resizing = False
        self.hurried = 0.0

    def after_controller_start(self, train_run_context: TrainRunContext) -> None:
        self.mailbox.lead.remote(ray.get_runtime_context().current_actor)

    def after_controller_state_update(
        self, previous_state: TrainControllerState, current_state: TrainControllerState
    ) -> None:
        self.mailbox.stand.remote(type(current_state).__name__)
        if isinstance(current_state, RestartingState):  # one that did not come up is rescheduled: it waits for nodes
            self.mailbox.fail.remote(*reason(current_state.training_failed_error))
        self.resizing = isinstance(previous_state, ResizingState)
        if isinstance(current_state, PreemptingState) and time.monotonic() - self.hurried > HURRY:
            self.hurried = time.monotonic()
            self.mailbox.ask_to_save.remote()

    def before_controller_execute_resize_decision(self, resize_decision: ResizeDecision) -> None:
        """A group that runs is about to end for one of another size."""
        if not self.resizing:
            return
        deadline = time.monotonic() + SAVING
        try:
            wish = ray.get(self.mailbox.ask_to_save.remote(), timeout=SAVING)
            while ray.get(self.mailbox.has_saved.remote(), timeout=SAVING) < wish and time.monotonic() < deadline:
                time.sleep(0.1)
        except RayError as error:
            logging.getLogger("ray.train").warning("resized without a new state: %s", error)


def reason(failed: TrainingFailedError) -> tuple[list[int], str, str]:
    """The ranks whose processes are gone, or do not answer; what else there is to say, in a line; and all of it."""
    failures = failed.worker_failures if isinstance(failed, WorkerGroupError) else {}
    gone = (WorkerHealthCheckFailedError, WorkerHealthCheckTimeoutError)
    dead = [rank for rank, error in failures.items() if isinstance(error, gone)]
    others = [error for rank, error in failures.items() if rank not in dead]
    said = str(others[0] if others else failed).strip().partition("\n")[0]
    return dead, said[:500].rstrip("."), str(failed)
