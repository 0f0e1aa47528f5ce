"""The served models, and the selection of the model for a request."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from interlinear.config import ImageNetwork, Task
from interlinear.errors import ServiceError, UsageError
from interlinear.generation.request import Request
from interlinear.generation.translator import META, Translator, TranslatorFacts, TranslatorReference, open_translator
from interlinear.registry.bundle_folder import LocalBundle
from interlinear.registry.lease import Lease
from interlinear.registry.names import AliasName, parse_model_name
from interlinear.translation.language_tags import closest_language, language_name
from interlinear.translation.paths import ModelPath, closest_pairs, pivot_paths
from service.problems import Problem, excerpt
from service.settings import ServedModelConfig, Settings


@dataclass(frozen=True, eq=False)
class ReverseModel:
    """The model of the opposite direction that a served model's explanations have the links of, too."""

    name: str
    version: str
    registered_source: str | None = None  # as in LocalBundle
    lease: Lease | None = None  # prevents eviction of its files from the cache

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A translator under its name and version."""

    name: str
    version: str
    aliases: tuple[str, ...]
    translator: Translator
    registered_source: str | None = None  # as in LocalBundle
    lease: Lease | None = None  # prevents eviction of its files from the cache
    reverse: ReverseModel | None = None

    @property
    def facts(self) -> TranslatorFacts:
        return self.translator.facts

    @property
    def task(self) -> Task:
        return self.facts.task

    @property
    def slots(self) -> int:
        """Texts searched at the same time."""
        return self.translator.reference.slots

    @property
    def width(self) -> int:
        """The largest beam."""
        return self.translator.reference.width

    @property
    def source(self) -> str:
        """The name of the first text source."""
        return self.facts.texts[0]

    def fits(self, request: Request) -> bool:
        """Whether the text of a request, and its terms, are within the model's limits."""
        return self.translator.fits(request)

    def reads_whole(self, text: str) -> bool:
        """Whether a text is within the model's length limit."""
        return self.translator.count_tokens(text) <= self.facts.limits.source_length

    def is_usually_small(self, word: str) -> bool:
        """Whether a word of the target language is written with a small letter inside a sentence."""
        return self.translator.is_usually_small(word)

    @property
    def image_source(self) -> tuple[str, ImageNetwork] | None:
        """The name of the image source and its network; None if the model reads no images."""
        return next(((name, grid.network) for name, grid in self.facts.images.items() if grid.network), None)

    @property
    def language_pair(self) -> tuple[str, str]:
        """Source and target language."""
        languages = self.facts.languages
        return languages["source"], languages["target"]

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def with_reverse(self) -> str:
        """Its name and version, and its reverse model's if it has one."""
        return f"{self}, explained with {self.reverse}" if self.reverse else str(self)

    def matches(self, reference: str) -> bool:
        """Whether `name`, `name@alias` or `name@version` refers to this model."""
        name, _, version = reference.partition("@")
        return name == self.name and (not version or version == self.version or version in self.aliases)


class ServedModels:
    """The models served at one moment, immutable: a swap creates a new instance. If several fit, the first is used."""

    def __init__(self, served: Sequence[ServedModel], pivot: bool = True) -> None:
        """`pivot`: whether texts are translated through a pivot language where no model translates directly."""
        self.served = tuple(served)
        self.pivot_paths = pivot_paths(self.for_task("translation")) if pivot else []

    def for_task(self, task: Task) -> list[ServedModel]:
        """The models for a task."""
        return [model for model in self.served if model.task == task]

    @property
    def least_beam(self) -> int:
        """The smallest default beam."""
        return min((model.facts.search.beam for model in self.served), default=1)

    def summarizer(self, reference: str | None) -> ServedModel:
        """The model for headlines, by name if one is given. Raises Problem."""
        return self._named("summarization", reference)[0]

    def languages(self) -> dict[str, list[str]]:
        """Every translated language with its target languages, also through a pivot language, and itself."""
        pairs = self._language_pairs("translation", None) if self.for_task("translation") else []
        codes = sorted({code for pair in pairs for code in pair})
        return {code: sorted({code, *(target for source, target in pairs if source == code)}) for code in codes}

    def all_languages(self) -> set[str]:
        """The languages of all models except headline models."""
        return {code for model in self.served if model.task != "summarization" for code in model.language_pair}

    def source_languages(self, task: Task, target: str, reference: str | None) -> set[str]:
        """The source languages of a task for `target`, among the models that `reference` names. Raises Problem."""
        pairs = self._language_pairs(task, reference)
        target_code = closest_language(target, (t for _, t in pairs))
        if target_code is None:
            raise self._no_such_pair(task, "auto", target, reference)
        return {s for s, t in pairs if t == target_code}

    def same_language(self, source: str, target: str) -> bool:
        """Whether two tags mean one served language, which no model translates into itself."""
        served = self.all_languages()
        code = closest_language(source, served)
        if code is None or code != closest_language(target, served):
            return False
        return not any(model.language_pair == (code, code) for model in self.for_task("translation"))

    def path_into(self, target: str) -> ModelPath[ServedModel]:
        """A model of the target language, or any if there is none."""
        models = self._named("translation", None)
        return ModelPath(next((m for m in models if closest_language(target, [m.language_pair[1]])), models[0]))

    def translation_path(self, source: str, target: str, reference: str | None) -> ModelPath[ServedModel]:
        """The model that translates a pair of languages or, if there is none and none is named, two through a pivot
        language. Raises Problem if there are none."""
        if direct := closest_pairs(self._named("translation", reference), source, target):
            return ModelPath(direct[0])
        if reference is None and (paths := closest_pairs(self.pivot_paths, source, target)):
            return paths[0]
        raise self._no_such_pair("translation", source, target, reference)

    def for_languages(self, task: Task, source: str, target: str, reference: str | None) -> list[ServedModel]:
        """The models for a task and a pair of languages, by name if one is given; a variant of a language (`de-AT`)
        means the closest one that is served. Raises Problem if there are none."""
        if models := closest_pairs(self._named(task, reference), source, target):
            return models
        raise self._no_such_pair(task, source, target, reference)

    def _language_pairs(self, task: Task, reference: str | None) -> list[tuple[str, str]]:
        """The pairs of languages of a task, among the models that a request names. Raises Problem if there are none."""
        paths = self.pivot_paths if reference is None and task == "translation" else []
        named = [model.language_pair for model in self._named(task, reference)]
        return named + [path.language_pair for path in paths]

    def _named(self, task: Task, reference: str | None) -> list[ServedModel]:
        """The models for a task that a request names. Raises Problem if there are none."""
        candidates = self.for_task(task)
        matching = [model for model in self.served if reference is None or model.matches(reference)]
        if named := [model for model in candidates if model in matching]:
            return named
        if reference is None:
            raise Problem(400, f"no {task} model is served; see GET /models")
        names = ", ".join(dict.fromkeys(map(str, candidates))) or "none"
        if matching:
            raise Problem.in_field("model", f"must be one for {task}, {names}: {matching[0]} is for {matching[0].task}")
        raise Problem.in_field("model", f"must be one that is served for {task}, {names}, not {excerpt(reference)!r}")

    def _no_such_pair(self, task: Task, source: str, target: str, reference: str | None) -> Problem:
        pairs = self._language_pairs(task, reference)
        error = unsupported_languages(source, target, self.all_languages())
        from_source = sorted({t for s, t in pairs if closest_language(source, [s])})
        if from_source:
            return Problem.in_field(
                "target", f"must be {' or '.join(from_source)} for {source}, not {excerpt(target)!r}", error
            )
        into_target = sorted({s for s, t in pairs if closest_language(target, [t])})
        if into_target:
            return Problem.in_field(
                "source", f"must be {' or '.join(into_target)} for {target}, not {excerpt(source)!r}", error
            )
        served_pairs = ", ".join(dict.fromkeys(f"{s} to {t}" for s, t in pairs))
        return Problem.in_field(
            "target", f"cannot be {excerpt(target)!r} for {excerpt(source)!r}: there is {served_pairs}", error
        )


def unsupported_languages(source: str, target: str, served: Collection[str]) -> str:
    """LibreTranslate's sentence for a pair of languages that is not translated."""
    for tag in (source, target):
        if tag != "auto" and closest_language(tag, served) is None:
            return f"{excerpt(tag.lower())} is not supported"
    codes = [closest_language(tag, served) or tag for tag in (source, target)]
    from_, into = (f"{language_name(code)} ({code})" for code in codes)
    return f"{into} is not available as a target language from {from_}"


def load_model(
    config: ServedModelConfig, local_bundle: LocalBundle, settings: Settings, reverse: LocalBundle | None = None
) -> ServedModel:
    """Open the translator of an entry in the settings, and with it its reverse model. Raises InterlinearError: damaged,
    without languages, an invalid name, or a reverse model that is not of the opposite direction."""
    reference = parse_model_name(config.uri)
    shortlist = settings.shortlist if config.shortlist is None else config.shortlist
    slots, width = config.slots or settings.slots, config.beam or settings.beam
    translator = open_here(TranslatorReference(local_bundle.folder, slots, width, shortlist), settings)
    name = config.name or own_name(local_bundle)
    if not name.isprintable() or "@" in name or "/" in name:
        raise UsageError(repr(name), "cannot be the name of a served model", "use letters, digits, '-' and '_'")
    if translator.facts.task != "summarization" and not {"source", "target"} <= set(translator.facts.languages):
        raise ServiceError(
            config.uri, "its card does not say which languages it reads and writes", "name them in the data set"
        )
    if not translator.facts.texts:
        raise ServiceError(config.uri, "it reads no text, and every route gives one", "train it on a text source too")
    served = ServedModel(
        name=name,
        version=version_of(local_bundle, translator),
        aliases=(reference.alias,) if isinstance(reference, AliasName) else (),
        translator=translator,
        registered_source=local_bundle.source,
        lease=local_bundle.lease,
    )
    return explained_with(served, config.reverse or "", reverse, settings) if reverse else served


def explained_with(served: ServedModel, uri: str, local_bundle: LocalBundle, settings: Settings) -> ServedModel:
    """A model with this reverse model. Raises InterlinearError: damaged, not for translation, or not of the opposite
    direction.

    It only decodes given texts: its search is not compiled, and has no shortlist.
    """
    translator = open_here(TranslatorReference(local_bundle.folder, slots=1), settings, compiled=False)
    where = f"the reverse model {uri}"
    for each in (served.facts, translator.facts):
        if each.task != "translation":
            raise UsageError(
                where, f"both models must be for translation, and one is for {each.task}", "leave the reverse model out"
            )
    name, version = own_name(local_bundle), version_of(local_bundle, translator)
    reverse = ReverseModel(name, version, local_bundle.source, local_bundle.lease)
    return replace(served, reverse=reverse, translator=served.translator.with_reverse(translator, where))


def open_here(reference: TranslatorReference, settings: Settings, compiled: bool = True) -> Translator:
    """Open a translator for searches in this process; one without weights if worker processes search. Raises
    InterlinearError."""
    if settings.uses_processes:
        return open_translator(reference, META)
    return open_translator(reference, "cpu", settings.precision, settings.compile if compiled else "off")


def own_name(local_bundle: LocalBundle) -> str:
    """The name under which a bundle is registered, or its folder's name."""
    return local_bundle.name or local_bundle.folder.resolve().name


def version_of(local_bundle: LocalBundle, translator: Translator) -> str:
    """The registered version, or one made from the checksum of the weights."""
    return local_bundle.version or f"sha-{(translator.reference.weights or '')[:8]}"


def check_replacement(new: ServedModel, old: ServedModel) -> None:
    """Raises ServiceError unless the new model serves all callers of the old one."""
    if new.task != old.task:
        raise ServiceError(str(new), f"it is for {new.task}, and {old} is for {old.task}", "promote another version")
    if new.facts.languages != old.facts.languages:
        (now, before) = (model.facts.direction or "none" for model in (new, old))
        raise ServiceError(str(new), f"its languages are {now}, and {old}'s {before}", "promote another version")
