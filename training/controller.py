"""What Ray Train's controller is made to tell, and to wait for: a state is saved before it ends a group on purpose."""

import logging
import time
from typing import Any

import ray
from ray.exceptions import RayError
from ray.train.v2._internal.execution.callback import ControllerCallback
from ray.train.v2._internal.execution.controller.state import (
    PreemptingState,
    ReschedulingState,
    ResizingState,
    RestartingState,
    TrainControllerState,
)
from ray.train.v2._internal.execution.scaling_policy import ResizeDecision

SAVING = 60.0  # seconds that a resize waits for a state; then it costs what was done since the last one
HURRY = 5.0  # seconds between states while a node is about to be taken


class Watch(ControllerCallback):
    """Goes with the controller, an actor on the driver's node. Ray takes such callbacks, and calls them internal."""

    def __init__(self, mailbox: Any) -> None:
        self.mailbox = mailbox
        self.resizing = False
        self.hurried = 0.0

    def after_controller_state_update(
        self, previous_state: TrainControllerState, current_state: TrainControllerState
    ) -> None:
        why = None
        if isinstance(current_state, RestartingState | ReschedulingState):
            lines = str(current_state.training_failed_error).strip().splitlines()
            why = lines[-1].strip() if lines else type(current_state.training_failed_error).__name__
        # A group that did not come up has not failed: it waits for nodes.
        self.mailbox.stand.remote(
            type(current_state).__name__, why if isinstance(current_state, RestartingState) else None
        )
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
