"""What `train` prints at its end."""

import sys
from typing import TYPE_CHECKING

from interlinear.console import say

if TYPE_CHECKING:
    from training.events import Outcome
    from training.tracking.run import Tracker


def report_interruption(outcome: "Outcome") -> int:
    """Print how to continue an interrupted training; returns the exit code."""
    arguments = [word for word in sys.argv[1:] if word != "--resume"]
    say(f"interrupted; saved after {outcome.updates} updates. Go on with: interlinear {' '.join(arguments)} --resume")
    return 128 + outcome.signal


def report_outcome(outcome: "Outcome", tracker: "Tracker | None", register: str | None, test_data: str | None) -> None:
    """Print a finished training's version in the registry, a warning if it is no better than trivial baselines, and
    with `test_data`, a data set with a test split, how to evaluate it; then, on stdout, the SHA-256 of its weights."""
    model = str(outcome.bundle)
    if tracker and tracker.version:
        model = f"models:/{register}/{tracker.version}"
        same = f", with the same weights as version {tracker.same_as}" if tracker.same_as else ""
        say(f"registered as {model}{same}")
    if outcome.baseline and outcome.baseline.is_better:
        say(f"warning: {outcome.baseline}. Bring more data, or train longer.")
        if tracker and tracker.version and not tracker.is_champion:
            promote = f"interlinear promote {register} {tracker.version}"
            say(f"version {tracker.version} did not become the champion; `{promote}` makes it so.")
    if test_data:
        say(f"evaluate it with: interlinear evaluate {model} --data {test_data} --split test")
    print(outcome.weights_sha256)
