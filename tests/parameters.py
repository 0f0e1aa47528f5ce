"""Values of a test's parameter that `make test` has, and those that only `make test-all` has."""

from collections.abc import Iterable, Sequence

import pytest
from _pytest.mark import ParameterSet


def slow_but(quick: Iterable[str], names: Sequence[str]) -> list[str | ParameterSet]:
    """All names, marked slow but for the quick ones. Raises ValueError if a quick name is not among them."""
    if unknown := set(quick) - set(names):
        raise ValueError(f"there is no {', '.join(sorted(unknown))}")
    return [name if name in set(quick) else pytest.param(name, marks=pytest.mark.slow) for name in names]
