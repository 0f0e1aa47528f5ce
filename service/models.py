"""The served models, and the selection of the model for a request."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from interlinear.bundle import Bundle, ModelCard, Task, load, with_compiled_search
from interlinear.bundle.precision import resolve_precision
from interlinear.config import CompileChoice, ImageNetwork, Precision
from interlinear.errors import ServiceError, UsageError
from interlinear.models.model import Model
from interlinear.registry.bundle_folder import LocalBundle
from interlinear.registry.lease import Lease
from interlinear.registry.names import AliasName, parse_model_name
from interlinear.search.compiled import resolve_compile
from interlinear.text import Tokenizer
from interlinear.translation.language_tags import closest_language, language_name
from interlinear.translation.paths import ModelPath, closest_pairs, pivot_paths
from service.problems import Problem, excerpt
from service.settings import ServedModelConfig, Settings

log = logging.getLogger("interlinear.service")

EXAMPLES = 3  # number of example texts of a model
EXAMPLE_LETTERS = 4  # shortest word used as an example text


@dataclass(frozen=True, eq=False)
class ReverseModel:
    """A loaded bundle of the opposite direction, with which explanations of a served model have the links of both."""

    name: str
    version: str
    bundle: Bundle[Model]
    registered_source: str | None = None  # as in LocalBundle
    lease: Lease | None = None  # prevents eviction of its files from the cache

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A loaded bundle under its name and version."""

    name: str
    version: str
    aliases: tuple[str, ...]
    bundle: Bundle[Model]
    slots: int  # texts searched at the same time
    width: int  # largest beam
    registered_source: str | None = None  # as in LocalBundle
    lease: Lease | None = None  # prevents eviction of its files from the cache
    reverse: ReverseModel | None = None

    @property
    def task(self) -> Task:
        return self.bundle.card.task

    @property
    def source(self) -> str:
        """The name of the first text source."""
        return next(iter(self.bundle.card.model.texts))

    def fits(self, text: str) -> bool:
        """Whether a text is within the model's length limit."""
        return len(self.bundle.tokenizers[self.source].encode(text).ids) <= self.bundle.card.limits.source_length

    @property
    def image_source(self) -> tuple[str, ImageNetwork] | None:
        """The name of the image source and its network; None if the model reads no images."""
        images = self.bundle.card.model.images.items()
        return next(((name, grid.network) for name, grid in images if grid.network), None)

    @property
    def target_tokenizer(self) -> Tokenizer:
        return self.bundle.tokenizers["target"]

    @property
    def language_pair(self) -> tuple[str, str]:
        """Source and target language."""
        languages = self.bundle.card.languages
        return languages["source"], languages["target"]

    @property
    def examples(self) -> list[dict[str, str]]:
        """Example texts: those of the model card or, if it has none, frequent words of the vocabulary."""
        frequent = (word for word in self.bundle.tokenizers[self.source].whole_words if len(word) >= EXAMPLE_LETTERS)
        return self.bundle.card.examples or [{self.source: word} for word in islice(frequent, EXAMPLES)]

    @property
    def words(self) -> dict[str, int]:
        """Number of whole words in the vocabulary of each text source, ignoring case."""
        vocabularies = {name: self.bundle.tokenizers[name].whole_words for name in self.bundle.card.model.texts}
        return {name: len({word.casefold() for word in words}) for name, words in vocabularies.items()}

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def with_reverse(self) -> str:
        """Its name and version, and those of its reverse model if it has one."""
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
        """The smallest beam of a search without options of its own."""
        return min((model.bundle.card.search.beam for model in self.served), default=1)

    def summarizer(self, reference: str | None) -> ServedModel:
        """The model for headlines, by name if one is given. Raises Problem."""
        return self._named("summarization", reference)[0]

    def languages(self) -> dict[str, list[str]]:
        """Every translated language with its target languages: those through a pivot language, and itself."""
        pairs = self._language_pairs("translation", None) if self.for_task("translation") else []
        codes = sorted({code for pair in pairs for code in pair})
        return {code: sorted({code, *(target for source, target in pairs if source == code)}) for code in codes}

    def all_languages(self) -> set[str]:
        """The languages of all models except those for headlines."""
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


def load_for_search(
    folder: Path, device: str, precision: Precision, compile_search: CompileChoice, shortlist: bool
) -> Bundle[Model]:
    """Load a bundle for searching, and log a precision other than the default. `shortlist`: whether its shortlist is
    used. Raises InterlinearError."""
    resolved = resolve_precision(precision, device)
    if precision != "fp32":
        log.info("%s is computed in %s on %s", folder, resolved, device)
    compiled = resolve_compile(compile_search, device)
    bundle = load(folder, device, resolved, shortlist)
    return with_compiled_search(bundle) if compiled else bundle


def load_model(
    config: ServedModelConfig, local_bundle: LocalBundle, settings: Settings, reverse: LocalBundle | None = None
) -> ServedModel:
    """Load a bundle for its entry in the settings, and with it its reverse model. Raises InterlinearError: damaged,
    without languages, an invalid name, or a reverse model that is not of the opposite direction."""
    reference = parse_model_name(config.uri)
    shortlist = settings.shortlist if config.shortlist is None else config.shortlist
    # Worker processes load the weights themselves: then this only checks that all files exist and fit.
    if settings.uses_processes:
        bundle = load(local_bundle.folder, "meta", shortlist=shortlist)
    else:
        bundle = load_for_search(local_bundle.folder, "cpu", settings.precision, settings.compile, shortlist)
    name = config.name or own_name(local_bundle)
    if not name.isprintable() or "@" in name or "/" in name:
        raise UsageError(repr(name), "cannot be the name of a served model", "use letters, digits, '-' and '_'")
    if bundle.card.task != "summarization" and not {"source", "target"} <= set(bundle.card.languages):
        raise ServiceError(
            config.uri, "its card does not say which languages it reads and writes", "name them in the data set"
        )
    if not bundle.card.model.texts:
        raise ServiceError(config.uri, "it reads no text, and every route gives one", "train it on a text source too")
    return ServedModel(
        name=name,
        version=version_of(local_bundle, bundle),
        aliases=(reference.alias,) if isinstance(reference, AliasName) else (),
        bundle=bundle,
        slots=config.slots or settings.slots,
        width=max(config.beam or settings.beam, bundle.card.search.beam),
        registered_source=local_bundle.source,
        lease=local_bundle.lease,
        reverse=None if reverse is None else load_reverse_model(config.reverse or "", reverse, bundle.card, settings),
    )


def load_reverse_model(uri: str, local_bundle: LocalBundle, card: ModelCard, settings: Settings) -> ReverseModel:
    """Load a reverse model of the model with this card. Raises InterlinearError: damaged, not for translation, or not
    of the opposite direction.

    It only decodes given texts: its search is not compiled, and has no shortlist.
    """
    if settings.uses_processes:
        bundle = load(local_bundle.folder, "meta", shortlist=False)
    else:
        bundle = load_for_search(local_bundle.folder, "cpu", settings.precision, "off", shortlist=False)
    where = f"the reverse model {uri}"
    for each in (card, bundle.card):
        if each.task != "translation":
            raise UsageError(
                where, f"both models must be for translation, and one is for {each.task}", "leave the reverse model out"
            )
    card.check_opposite(bundle.card, where)
    name, version = own_name(local_bundle), version_of(local_bundle, bundle)
    return ReverseModel(name, version, bundle, local_bundle.source, local_bundle.lease)


def own_name(local_bundle: LocalBundle) -> str:
    """The name under which a bundle is registered, or that of its folder."""
    return local_bundle.name or local_bundle.folder.resolve().name


def version_of(local_bundle: LocalBundle, bundle: Bundle[Model]) -> str:
    """The registered version, or one made from the checksum of the weights."""
    return local_bundle.version or f"sha-{bundle.card.weights_sha256[:8]}"


def check_replacement(new: ServedModel, old: ServedModel) -> None:
    """Raises ServiceError unless the new model serves all callers of the old one."""
    if new.task != old.task:
        raise ServiceError(str(new), f"it is for {new.task}, and {old} is for {old.task}", "promote another version")
    if new.bundle.card.languages != old.bundle.card.languages:
        (now, before) = (model.bundle.card.direction or "none" for model in (new, old))
        raise ServiceError(str(new), f"its languages are {now}, and {old}'s {before}", "promote another version")
