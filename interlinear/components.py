"""Parts that a config chooses by name: each is one class or function, registered where it is defined, also by other
packages.

`docs/extend.md` has an example of each kind.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from threading import RLock
from typing import Any, TypeVar

Component = TypeVar("Component", bound=Callable[..., Any])
GROUP = "interlinear.components"  # entry points of packages that register more


class Components(Mapping[str, Any]):
    """The classes or functions that a key of the config names. Modules that define them are imported one after the
    other, until one has the requested name: ours, then the modules of a group of entry points."""

    def __init__(self, key: str, *defined_in: str, group: str = GROUP) -> None:
        self.key, self.group = key, group
        self._components: dict[str, Any] = {}
        self._lock = RLock()
        ours = [partial(import_module, module) for module in defined_in]
        self._loads: list[Callable[[], object]] = [*ours, self._import_others]  # not called yet

    def register(self, *names: str) -> Callable[[Component], Component]:
        """Registers a class or function under its names in the config. Raises ValueError if one of the names is
        taken."""

        def add(component: Component) -> Component:
            for name in names:
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
        """The name, unchanged. Raises ValueError if no component has it."""
        if name not in self:
            raise ValueError(f"there is no {self.key} {name}; there are {', '.join(self) or 'none'}")
        return name

    def _import_until(self, name: str | None) -> None:
        """Import the modules that register components, until one has this name, or all modules."""
        with self._lock:  # a thread that asks meanwhile waits for the running import
            while self._loads and name not in self._components:
                load, *self._loads = self._loads
                load()

    def _import_others(self) -> None:
        for package in entry_points(group=self.group):
            package.load()


ATTENTIONS = Components("attention", "interlinear.models.recurrent.attention")
COMBINATIONS = Components("combination", "interlinear.models.recurrent.multi_source")
IMAGE_NETWORKS = Components(
    "network", "interlinear.models.image_encoders.networks", "interlinear.models.image_encoders.resnet"
)
OPTIMIZERS = Components("optimizer", "training.loop.optim")
ANSWER_FIELDS = Components("answer field")
METRICS = Components("metric", "interlinear.metrics.catalogue")
TRANSLATORS = Components("translator", "interlinear.generation.bundle_translator")
DOCUMENT_FORMATS = Components(
    "document format",
    *(
        f"interlinear.documents.{module}"
        for module in (
            "text_formats.plain_text",
            "markdown.markdown_file",
            "text_formats.subtitles",
            "text_formats.gettext_catalogue",
            "values.json_values",
            "values.yaml_values",
            "values.delimited",
            "values.java_properties",
            "xml_formats.resources",
            "xml_formats.xliff",
            "xml_formats.tmx",
            "xml_formats.word",
            "xml_formats.powerpoint",
            "xml_formats.excel",
            "xml_formats.opendocument",
            "xml_formats.epub",
            "pdf.pdf_file",
        )
    ),
    group="interlinear.documents",  # which has no torch: each document is read by a process of its own
)
PROCESSORS = Components("processor")  # processors of `interlinear.search.processors` have no name
