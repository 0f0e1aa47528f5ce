"""Parts that a config chooses by name: each is one class, registered where it is defined, in our packages or another.

`docs/extend.md` has an example of each kind.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar

Class = TypeVar("Class", bound=type)
GROUP = "interlinear.components"  # entry points of packages that register more


class Components:
    """The classes that a key of the config names; ours are imported at the first question."""

    def __init__(self, key: str, defined_in: str) -> None:
        self.key, self._defined_in = key, defined_in
        self._classes: dict[str, Any] = {}

    def register(self, name: str) -> Callable[[Class], Class]:
        """Decorates a class that the config names so. Raises ValueError if another has that name."""

        def add(component: Class) -> Class:
            if self._classes.setdefault(name, component) is not component:
                raise ValueError(f"{self.key}: there is a {name} already")
            return component

        return add

    def __getitem__(self, name: str) -> Any:
        import_module(self._defined_in)
        if name not in self._classes:
            for package in entry_points(group=GROUP):
                package.load()
        if name not in self._classes:
            raise ValueError(f"{self.key}: there is no {name}; there are {', '.join(self._classes)}")
        return self._classes[name]

    def check(self, name: str) -> str:
        """The name itself. Raises ValueError if no class has it."""
        self[name]
        return name


ATTENTIONS = Components("attention", "interlinear.models.recurrent.attention")
