"""Search options that several commands share; they override the model's own."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from interlinear.errors import UsageError

if TYPE_CHECKING:
    from interlinear.bundle import Bundle
    from interlinear.models.protocol import EncoderDecoder
    from interlinear.search import SearchOptions


@dataclass(frozen=True)
class SearchOverrides:
    """Search options of the command line; None where an option is absent."""

    n_best: Annotated[
        int | None,
        typer.Option(min=1, max=64, metavar="N", show_default=False, help="Number of outputs for every line."),
    ] = None
    beam_size: Annotated[
        int | None,
        typer.Option(
            min=1, max=64, metavar="N", show_default=False, help="Hypotheses kept at each step; 1 is greedy search."
        ),
    ] = None
    length_penalty: Annotated[
        str | None,
        typer.Option(
            metavar="none|average|ALPHA",
            show_default=False,
            help="How scores are normalised; a number is GNMT's alpha.",
        ),
    ] = None
    min_length: Annotated[
        int | None, typer.Option(min=0, metavar="N", show_default=False, help="Minimum number of output tokens.")
    ] = None
    max_length: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", show_default=False, help="Maximum number of output tokens; else 2 x source + 10."
        ),
    ] = None
    coverage_penalty: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="BETA", show_default=False, help="GNMT's beta: penalty for source words without attention."
        ),
    ] = None
    post_editing_penalty: Annotated[
        float | None,
        typer.Option(
            min=0, max=100, metavar="WEIGHT", show_default=False,
            help="Penalty for each output token that is in no input text, for post-editing models.",
        ),
    ] = None  # fmt: skip
    post_editing_confidence: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, metavar="P", show_default=False,
            help="Keep a machine translation unedited if the tokens of the edited one have a lower mean probability.",
        ),
    ] = None  # fmt: skip
    repetition_guard: Annotated[
        bool | None,
        typer.Option(
            "--repetition-guard/--no-repetition-guard",
            show_default=False,
            help="Write no word a second time for the same source word.",
        ),
    ] = None
    no_repeat_ngram_size: Annotated[
        int | None,
        typer.Option(
            min=0, max=10, metavar="N", show_default=False, help="Repeat no n-gram of N tokens; 0 allows all."
        ),
    ] = None
    repetition_penalty: Annotated[
        float | None,
        typer.Option(
            min=1, max=10, metavar="FACTOR", show_default=False,
            help="Factor of the log-probability of tokens that the output has already.",
        ),
    ] = None  # fmt: skip
    replace_unknown: Annotated[
        bool | None,
        typer.Option(
            "--replace-unknown",
            show_default=False,
            help="Replace unknown words by the source word with the largest weight.",
        ),
    ] = None

    def apply_to(self, bundle: "Bundle[EncoderDecoder]", n_best: int | None = None) -> "SearchOptions":
        """The search options of a bundle with these overrides. `n_best`: the bundle's own is not taken.

        Raises UsageError for an invalid combination, and for an option that the bundle's model has no use for.
        """
        from pydantic import ValidationError

        from interlinear.source_names import MT

        defaults = bundle.card.search if n_best is None else bundle.card.search.model_copy(update={"n_best": n_best})
        if self.post_editing_confidence and MT not in bundle.card.model.texts:
            raise UsageError(
                "--post-editing-confidence",
                f"the model has no source '{MT}', which would stay unedited",
                "leave it out",
            )
        options = {
            "beam": self.beam_size,
            "length_penalty": read_length_penalty(self.length_penalty),
            "n_best": self.n_best,
            "min_length": self.min_length,
            "max_length": self.max_length,
            "coverage_penalty": self.coverage_penalty,
            "repetition_guard": self.repetition_guard,
            "no_repeat_ngram_size": self.no_repeat_ngram_size,
            "repetition_penalty": self.repetition_penalty,
            "replace_unknown": self.replace_unknown,
            "post_editing_penalty": self.post_editing_penalty,
            "post_editing_confidence": self.post_editing_confidence,
        }
        overrides = {name: value for name, value in options.items() if value is not None}
        try:
            return type(defaults).model_validate(defaults.model_dump() | overrides)
        except ValidationError as error:
            reason = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise UsageError("search options", reason) from None


def read_length_penalty(text: str | None) -> str | float | None:
    """Parse `none`, `average` or a number. Raises UsageError."""
    if text in (None, "none", "average"):
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageError("--length-penalty", f"'{text}' is neither none, average nor a number") from None
