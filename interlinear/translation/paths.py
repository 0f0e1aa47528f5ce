"""Pairs of languages that no model translates: two models do, through a pivot language."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from interlinear.translation.language_tags import closest_language, tag_distance

PREFERRED = "en"  # the pivot language that is taken where several are possible


class HasLanguages(Protocol):
    """Has a source and a target language."""

    @property
    def language_pair(self) -> tuple[str, str]: ...


M = TypeVar("M", bound=HasLanguages)


@dataclass(frozen=True)
class ModelPath(Generic[M]):
    """The models that translate a text one after the other: one, or two through a pivot language."""

    first: M
    second: M | None = None

    @property
    def language_pair(self) -> tuple[str, str]:
        """Source and target language."""
        return self.first.language_pair[0], (self.second or self.first).language_pair[1]


def pivot_paths(models: Sequence[M]) -> list[ModelPath[M]]:
    """Every path through one pivot language, for pairs of languages that no model translates. Preferred ones first:
    through English, then paths whose second model reads exactly the variant that the first writes, then in the order of
    the models."""
    direct = [model.language_pair for model in models]
    paths = [
        ModelPath(first, second)
        for first in models
        for second in models
        if tag_distance(first.language_pair[1], second.language_pair[0]) is not None
    ]
    return sorted((path for path in paths if is_new(path, direct)), key=preference)


def is_new(path: ModelPath[M], direct: Sequence[tuple[str, str]]) -> bool:
    """Whether a path is between two languages, and no model translates them."""
    source, target = path.language_pair
    if tag_distance(source, target) is not None:
        return False
    return not any(tag_distance(source, s) is not None and tag_distance(target, t) is not None for s, t in direct)


def preference(path: ModelPath[M]) -> tuple[bool, int]:
    """The rank of a path's pivot language, smaller for a preferred one."""
    assert path.second
    written, read = path.first.language_pair[1], path.second.language_pair[0]
    return tag_distance(PREFERRED, written) is None, tag_distance(written, read) or 0


def closest_pairs(candidates: Sequence[M], source: str, target: str) -> list[M]:
    """The models that translate a pair of languages, else the models with the closest variants of both; empty if there
    are none."""
    targets = {one.language_pair[1] for one in candidates if closest_language(source, [one.language_pair[0]])}
    target_code = closest_language(target, sorted(targets))
    fitting = [one for one in candidates if one.language_pair[1] == target_code]
    source_code = closest_language(source, dict.fromkeys(one.language_pair[0] for one in fitting))
    return [one for one in fitting if one.language_pair[0] == source_code]
