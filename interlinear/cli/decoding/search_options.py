"""Search options that several commands share; they override the model's own."""

from collections.abc import Collection
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Annotated, Any

import typer

from interlinear.errors import UsageError

if TYPE_CHECKING:
    from interlinear.bundle import Bundle
    from interlinear.models.protocol import EncoderDecoder
    from interlinear.search import SearchOptions

SECTION = "search."  # the recipe's section with these keys
OF_OUTPUTS = ("n_best", "min_length", "max_length")  # keys that apply only to the last of two searches


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
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            show_default=False,
            help="Change the search, as search.length_penalty=1; its keys are in docs/recipes.md.",
        ),
    ] = None

    def apply_to(
        self, bundle: "Bundle[EncoderDecoder]", n_best: int | None = None, leave_out: Collection[str] = ()
    ) -> "SearchOptions":
        """The search options of a bundle with these overrides, except the ones to leave out. `n_best`: the only allowed
        number of outputs.

        Raises UsageError for an invalid combination, and for an option that the bundle's model has no use for.
        """
        from interlinear.source_names import MT

        defaults = bundle.card.search if n_best is None else bundle.card.search.model_copy(update={"n_best": n_best})
        overrides = {name: value for name, value in self.overrides().items() if name not in leave_out}
        if overrides.get("post_editing_confidence") and MT not in bundle.card.model.texts:
            raise UsageError(
                "--set search.post_editing_confidence",
                f"the model has no source '{MT}', which would stay unedited",
                "leave it out",
            )
        if n_best is not None and "n_best" in overrides:
            raise UsageError("--set search.n_best", f"each text has {n_best} output here", "leave it out")
        return validated(defaults.model_dump() | overrides)

    @property
    def beam(self) -> int | None:
        """The given beam size. Raises UsageError for an invalid one."""
        beam = self.overrides().get("beam")
        return None if beam is None else validated({"beam": beam}).beam

    def overrides(self) -> dict[str, Any]:
        """The options that are given, by their keys. Raises UsageError for a key of another section."""
        from training.yaml_files import parse_settings

        given: dict[str, Any] = {"n_best": self.n_best, "beam": self.beam_size}
        values = {name: value for name, value in given.items() if value is not None}
        for key, value in parse_settings(self.settings or ()):
            name = key.removeprefix(SECTION)
            if name == key:
                raise UsageError(f"--set {key}", "only the search of a trained model can be changed", "set search.KEY")
            values[name] = value
        return values


def validated(content: dict[str, Any]) -> "SearchOptions":
    """The search options of this content. Raises UsageError, which names the key, and for an unknown one the closest
    known one."""
    from pydantic import ValidationError

    from interlinear.search import SearchOptions

    try:
        return SearchOptions.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(["--set search", *map(str, first["loc"][:1])])
        if first["type"] != "extra_forbidden":
            raise UsageError(key, first["msg"].removeprefix("Value error, ")) from None
        known = list(SearchOptions.model_fields)
        near = get_close_matches(str(first["loc"][0]), known, 1)
        remedy = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
        raise UsageError(key, "unknown key", remedy) from None
