"""Parts that a config chooses by name: each is one class or function, registered where it is defined, also by packages
of others.

`docs/extend.md` has an example of each kind.
"""

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from threading import RLock
from typing import Any, TypeVar

Component = TypeVar("Component", bound=Callable[..., Any])
GROUP = "interlinear.components"  # entry points of packages that register more


class Components(Mapping[str, Any]):
    """The classes or functions that a key of the config names; ours are imported at the first question."""

    def __init__(self, key: str, *defined_in: str) -> None:
        self.key, self._defined_in = key, defined_in
        self._components: dict[str, Any] = {}
        self._lock = RLock()
        self._loads: list[Callable[[], object]] = [self._import_ours, self._import_others]  # not called yet

    def register(self, name: str) -> Callable[[Component], Component]:
        """Decorates what the config names so. Raises ValueError if something else has that name."""

        def add(component: Component) -> Component:
            if self._components.setdefault(name, component) is not component:
                raise ValueError(f"{self.key}: there is a {name} already")
            return component

        return add

    def __getitem__(self, name: str) -> Any:
        self._import_until(name)
        return self._components[name]

    def __iter__(self) -> Iterator[str]:
        """All names, in alphabetical order."""
        self._import_until(None)
        return iter(sorted(self._components))

    def __len__(self) -> int:
        self._import_until(None)
        return len(self._components)

    def check(self, name: str) -> str:
        """The name itself. Raises ValueError if nothing has it."""
        if name not in self:
            raise ValueError(f"{self.key}: there is no {name}; there are {', '.join(self)}")
        return name

    def _import_until(self, name: str | None) -> None:
        """Import what registers components, until one has this name, or all."""
        with self._lock:  # a thread that asks meanwhile waits for what is being imported
            while self._loads and name not in self._components:
                load, *self._loads = self._loads
                load()

    def _import_ours(self) -> None:
        for module in self._defined_in:
            import_module(module)

    def _import_others(self) -> None:
        for package in entry_points(group=GROUP):
            package.load()


ATTENTIONS = Components("attention", "interlinear.models.recurrent.attention")
COMBINATIONS = Components("combination", "interlinear.models.recurrent.multi_source")
OPTIMIZERS = Components("optimizer", "training.loop.optim")
METRICS = Components("metric", "interlinear.metrics.catalogue")
