"""What `interlinear evaluate` scores, and how; checked before any model is loaded."""

from dataclasses import dataclass
from pathlib import Path

from interlinear.decoding.alignment import check_symmetrized
from interlinear.decoding.search_options import SearchOverrides
from interlinear.evaluation.scoring import is_output_file, needs_alignments, needs_outputs, select_metrics
from interlinear.evaluation.test_sets import UNEDITED
from interlinear.options import AlignmentKind, Lowercase, PrecisionChoice, TestSetSource, Tokenize
from seq2seq.alignment import Symmetrization
from seq2seq.errors import UsageError

SHUFFLE_SEED = 1  # of --shuffle-images, unless --seed names another


@dataclass(frozen=True)
class EvaluationOptions:
    """The model or file of outputs, the test set, and the options of the command; None where an option is absent."""

    model: str
    test_set_source: TestSetSource
    metrics: str | None
    tokenize: Tokenize
    lowercase: Lowercase
    by: AlignmentKind | None
    reverse: str | None
    symmetrize: Symmetrization | None
    search: SearchOverrides
    shuffle_images: bool
    seed: int | None
    confidence_curve: bool
    output: Path | None
    log: bool
    device: str | None
    precision: PrecisionChoice | None
    shortlist: bool
    tracking: str | None

    @property
    def shuffle_seed(self) -> int:
        """The seed by which images are shuffled."""
        return SHUFFLE_SEED if self.seed is None else self.seed

    def check(self) -> None:
        """Raises UsageError for options that contradict each other or have no effect."""
        alignments = needs_alignments(self.metrics, self.by)
        check_symmetrized(self.reverse, self.symmetrize)
        if self.reverse and not alignments:
            raise UsageError("--reverse", "no score of alignments is asked for", "ask for them: --metrics alignment")
        if self.seed is not None and not self.shuffle_images:
            raise UsageError("--seed", "nothing is drawn at random", "give --shuffle-images, or leave it out")
        if self.confidence_curve and self.search.post_editing_confidence is not None:
            raise UsageError(
                "--confidence-curve", "it has every confidence", "leave it or --post-editing-confidence out"
            )
        if self.shuffle_images and self.test_set_source.no_images:
            raise UsageError("--shuffle-images", "--no-images leaves none to be shuffled", "leave one of them out")
        ensemble = "," in self.model and not Path(self.model).exists()
        if self.log and (is_output_file(self.model) or ensemble):
            raise UsageError("--log", f"{self.model} is not a model that one run has trained", "leave it out")
        self._check_search_options()
        if self.output and not self.output.parent.is_dir():
            raise UsageError("--output", f"there is no folder {self.output.parent}", "make it, or name another file")

    def _check_search_options(self) -> None:
        """Raises UsageError for an option of the search, or of a model, where there is none."""
        options: dict[str, object] = {
            "--beam-size": self.search.beam_size,
            "--length-penalty": self.search.length_penalty,
            "--max-length": self.search.max_length,
            "--post-editing-penalty": self.search.post_editing_penalty,
            "--post-editing-confidence": self.search.post_editing_confidence,
            "--confidence-curve": self.confidence_curve or None,
            "--shortlist": self.shortlist or None,
        }
        if is_output_file(self.model):
            options |= {
                "--by": self.by,
                "--reverse": self.reverse,
                "--output": self.output,
                "--device": self.device,
                "--precision": self.precision,
                "--no-images": self.test_set_source.no_images or None,
                "--shuffle-images": self.shuffle_images or None,
            }
            description = "the machine translations" if self.model == UNEDITED else "a file with outputs"
            reason = f"{self.model} is {description}: nothing is searched for"
        elif self.output or needs_outputs(select_metrics(self.metrics)):
            return
        else:
            reason = "scores of alignments need no search"
        for name, value in options.items():
            if value is not None:
                raise UsageError(name, reason, "leave it out")
