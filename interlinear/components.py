"""Parts that a config chooses by name: each is one class or function, registered where it is defined, also by packages
of others.

`docs/extend.md` has an example of each kind.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, TypeVar

Component = TypeVar("Component", bound=Callable[..., Any])
GROUP = "interlinear.components"  # entry points of packages that register more


class Components:
    """The classes or functions that a key of the config names; ours are imported at the first question."""

    def __init__(self, key: str, defined_in: str) -> None:
        self.key, self._defined_in = key, defined_in
        self._components: dict[str, Any] = {}

    def register(self, name: str) -> Callable[[Component], Component]:
        """Decorates what the config names so. Raises ValueError if something else has that name."""

        def add(component: Component) -> Component:
            if self._components.setdefault(name, component) is not component:
                raise ValueError(f"{self.key}: there is a {name} already")
            return component

        return add

    def __getitem__(self, name: str) -> Any:
        import_module(self._defined_in)
        if name not in self._components:
            for package in entry_points(group=GROUP):
                package.load()
        if name not in self._components:
            raise ValueError(f"{self.key}: there is no {name}; there are {', '.join(self._components)}")
        return self._components[name]

    def check(self, name: str) -> str:
        """The name itself. Raises ValueError if nothing has it."""
        self[name]
        return name


ATTENTIONS = Components("attention", "interlinear.models.recurrent.attention")
COMBINATIONS = Components("combination", "interlinear.models.recurrent.multi_source")
OPTIMIZERS = Components("optimizer", "training.loop.optim")
