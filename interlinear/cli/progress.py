"""Progress line on stderr for long operations, and its version for training events."""

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from interlinear.cli.console import say
from interlinear.installation import shell_command

if TYPE_CHECKING:
    from interlinear.cli.training_options import TrackingOptions
    from training.events import EpochReport, Outcome, StartReport, StepReport, TrainingJob
    from training.tracking.run import Tracker


class LiveLine:
    """A line on stderr: updated in place on a terminal, printed at intervals otherwise."""

    EVERY = 15.0  # seconds between lines without a terminal

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.printed = time.monotonic()
        self.width = 0

    def show(self, text: str) -> None:
        """Show the current status, replacing the previous one."""
        if self.live:
            print(f"\r{text.ljust(self.width)}", end="", file=sys.stderr, flush=True)
            self.width = len(text)
        elif time.monotonic() - self.printed >= self.EVERY:
            self.line(text)

    def line(self, text: str) -> None:
        """Print a permanent line."""
        self.clear()
        print(text, file=sys.stderr, flush=True)
        self.printed = time.monotonic()

    def clear(self) -> None:
        if self.live and self.width:
            print(f"\r{' ' * self.width}\r", end="", file=sys.stderr, flush=True)
        self.width = 0


class ProgressLine(LiveLine):
    """Training observer that prints progress and results."""

    def __init__(self) -> None:
        super().__init__()
        self.loss = "loss"

    def started(self, job: "TrainingJob", start: "StartReport") -> None:
        self.loss = "risk" if job.recipe.training.objective == "risk" else "loss"
        done = f", going on after update {start.updates_done:,}" if start.updates_done else ""
        self.line(
            f"{job.name}: {start.parameters / 1e6:.1f}M parameters, {start.pairs:,} pairs, "
            f"{start.updates_per_epoch:,} updates an epoch{done}"
        )

    def step(self, report: "StepReport") -> None:
        self.show(
            f"epoch {report.epoch}  step {report.update:,}/{report.updates:,}  {self.loss} {report.loss:.3f}  "
            f"{guide_text(report.guide)}perplexity {report.perplexity:.2f}  {report.tokens_per_second:,.0f} tokens/s  "
            f"ETA {format_duration(report.eta_seconds)}"
        )

    def epoch(self, report: "EpochReport") -> None:
        star = "  *" if report.improved else ""
        bleu = f"dev BLEU {report.dev_bleu.score:.2f}"
        scores = f"{bleu}  dev ROUGE-L {report.dev_rouge.score:.2f}" if report.dev_rouge else bleu
        self.line(
            f"epoch {report.epoch}  {self.loss} {report.train_loss:.3f}  {guide_text(report.train_guide)}"
            f"dev perplexity {report.dev_perplexity:.2f}  {scores}  rate {report.learning_rate:.2g}  "
            f"{format_duration(report.seconds)}{star}"
        )

    def warned(self, message: str) -> None:
        self.line(message)

    def finished(self, outcome: "Outcome") -> None:
        assert outcome.dev_bleu is not None
        epochs = ", ".join(map(str, outcome.averaged))
        self.line(f"weights of epoch {epochs}: dev BLEU {outcome.dev_bleu.score:.2f}; bundle {outcome.bundle}")


def guide_text(guide: float | None) -> str:
    """The loss of guided attention; nothing where there is none."""
    return "" if guide is None else f"guide {guide:.3f}  "


def format_duration(seconds: float) -> str:
    """Seconds as m:ss or h:mm:ss."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def report_interruption(outcome: "Outcome") -> int:
    """Print how to continue an interrupted training; returns the exit code."""
    arguments = [word for word in sys.argv[1:] if word != "--resume"]
    say(f"interrupted; saved after {outcome.updates} updates. Go on with: {shell_command(*arguments, '--resume')}")
    return 128 + outcome.signal


def report_outcome(
    outcome: "Outcome", tracker: "Tracker | None", log: "TrackingOptions", data: str, data_root: Path | None
) -> None:
    """Print the SHA-256 of a finished training's weights on stdout; then, as messages, its version in the registry, a
    warning if it is no better than trivial baselines, and the commands that serve, evaluate and promote it."""
    from training.data.dataset import open_dataset

    print(outcome.weights_sha256, flush=True)
    name, version, model = log.register, tracker and tracker.version, str(outcome.bundle)
    split = "test" if open_dataset(data, data_root).has_split("test") else "dev"
    options = ["--data-root", data_root] if data_root else []
    options += ["--tracking", log.store] if log.store else []
    if tracker and name and version:
        model = f"models:/{name}/{version}"
        same = f", with the same weights as version {tracker.same_as}" if tracker.same_as else ""
        say(f"registered as {model}{same}")
    if outcome.baseline and outcome.baseline.is_better:
        say(f"warning: {outcome.baseline}. Bring more data, or train longer.")
    if tracker and name and version:
        served = f"models:/{name}@champion" if tracker.champion == version else model
        store = ["--tracking", log.store] if log.store else []
        say(f"serve it: {shell_command('serve', '--model', f'{name}={served}', *store)}")
    say(f"evaluate it: {shell_command('evaluate', model, '--data', data, '--split', split, *options)}")
    if tracker and name and version:
        compared = ["--if-better-on", f"{data}:{split}", *options]
        if tracker.champion == version:
            promote = shell_command("promote", name, "VERSION", *compared)
            say(f"version {version} is the champion; compare a later one with it, and promote that: {promote}")
        elif tracker.champion:
            promote = shell_command("promote", name, version, *compared)
            say(f"version {tracker.champion} is still the champion; compare and promote: {promote}")
        else:
            promote = shell_command("promote", name, version, *store)
            say(f"version {version} did not become the champion; `{promote}` makes it so.")
