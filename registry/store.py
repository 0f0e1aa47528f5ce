"""The MLflow store: logs bundles as models, registers them under names and resolves aliases."""

import difflib
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

import mlflow
import requests
from mlflow.entities import LoggedModel, LoggedModelOutput, LoggedModelStatus, Run
from mlflow.entities.model_registry import ModelVersion, RegisteredModel
from mlflow.exceptions import MlflowException
from mlflow.models import Model
from mlflow.store.entities import PagedList
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from registry.address import check_reachable, mask_password, sqlite_file, tracking_uri, user
from registry.credentials import mask_credentials
from registry.mlflow_metadata import input_example, model_signature, model_tags, pip_requirements
from registry.names import (
    CHAMPION,
    AliasName,
    FolderName,
    ModelName,
    RunName,
    VersionName,
    check_name,
    parse_model_name,
)
from seq2seq.bundle.readme import readme_of_version
from seq2seq.errors import RegistryError, RegistryUnavailableError, UnknownModelError, UsageError

if TYPE_CHECKING:
    pass

_T = TypeVar("_T")

# so that MLflow's page shows runs and curves at once
EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}
LOGGED_MODEL_NAME = "model"  # a run's bundle is `runs:/ID/model`

_MAX_DIGITS = 9  # of a version's number, within a database's integer type

# URI schemes of artifact stores that are read, besides a folder and the tracking server's own store.
_OBJECT_STORES = ("s3", "gs", "abfss", "wasbs", "hdfs")

# MLflow's error codes for an unknown user and for missing permissions.
_UNKNOWN_USER = ("UNAUTHENTICATED", "CUSTOMER_UNAUTHORIZED", "PERMISSION_DENIED")
# MLflow's error codes for an unknown name.
_MISSING = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "NOT_FOUND")
_CREDENTIALS = "give MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, of one who may do this"


@dataclass(frozen=True)
class StoredModel:
    """The location of a model in the store: MLflow's folder around a bundle."""

    name: str | None
    version: str | None
    location: str  # the artifacts' address
    folder: Path | None  # the same as a folder, where this machine sees it

    def __str__(self) -> str:
        return f"models:/{self.name}/{self.version}" if self.name else self.location


@dataclass(frozen=True)
class LoggedBundle:
    """A bundle that was logged as a run's model."""

    model_id: str
    run_id: str
    description: str  # Markdown, for the registry's page


@dataclass(frozen=True)
class ModelRecord:
    """One registered version, as listed by `interlinear models`."""

    name: str
    version: str
    aliases: tuple[str, ...]
    run_id: str | None
    created: datetime
    task: str | None
    languages: str | None
    recipe: str | None
    dataset: str | None
    dev_bleu: float | None
    dev_bleu_of: str | None  # the number of sentences and the search settings


@dataclass(frozen=True)
class Promotion:
    """The reason for moving an alias to another version. `figures`: by how much it is better, and on what."""

    instead_of: str | None
    why: str | None = None
    figures: str | None = None

    def tags(self, version: str) -> dict[str, str]:
        """The promotion as tags of the version; they replace those of an earlier promotion."""
        details = {"why": self.why or "-", "figures": self.figures or "-"}
        before = "-" if self.instead_of in (None, version) else str(self.instead_of)
        return {"by": user(), "at": datetime.now(UTC).isoformat(timespec="seconds"), "instead_of": before, **details}


class MlflowStore:
    """One MLflow store, by its address: `tracking`, else MLFLOW_TRACKING_URI, else `./mlflow.db`.

    Artifacts of a local database are in `mlartifacts` beside it; those of a server where the server says. Every method
    raises RegistryError, within seconds, when the store cannot be reached.
    """

    def __init__(self, tracking: str | None = None, create: bool = False) -> None:
        """Open the store; a SQLite file that does not exist is created only with `create`.

        Raises UsageError for an address of no known kind, RegistryError where the store does not answer.
        """
        self.uri = tracking_uri(tracking)
        for name in ("mlflow", "alembic"):
            logging.getLogger(name).setLevel(logging.WARNING)  # created tables, validated models: nothing to act upon
        with self.errors():
            self.artifacts = check_reachable(self.uri, create)
        # MLflow's default is to retry for four minutes; the user's own settings take precedence.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        with self.errors():
            self.client = mlflow.MlflowClient(self.uri, self.uri)

    @property
    def display_uri(self) -> str:
        """The address without its password."""
        return mask_password(self.uri)

    def run_url(self, experiment_id: str, run_id: str) -> str:
        """The address of a run: its page on a server, else its id and its store."""
        if self.uri.startswith(("http://", "https://")):
            return f"{self.display_uri.rstrip('/')}/#/experiments/{experiment_id}/runs/{run_id}"
        if self.uri.startswith("sqlite"):
            return f"sqlite:///{sqlite_file(self.uri).resolve()}, run {run_id}"
        return f"{self.display_uri}, run {run_id}"

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turns errors of MLflow into a RegistryError that names the store."""
        try:
            yield
        except (MlflowException, SQLAlchemyError, requests.RequestException, OSError) as error:
            problem = mask_credentials(" ".join(str(error).split()) or type(error).__name__, self.uri)[:300]
            if isinstance(error, MlflowException) and error.error_code in _UNKNOWN_USER:
                raise RegistryError(self.display_uri, f"it does not let us in ({problem})", _CREDENTIALS) from error
            kind = RegistryUnavailableError if _is_temporary(error) else RegistryError
            raise kind(self.display_uri, problem, "look whether it may be written") from error

    def experiment(self, name: str) -> str:
        """The id of an experiment, which is created where it does not exist."""
        with self.errors():
            if existing := self.client.get_experiment_by_name(name):
                if existing.lifecycle_stage != "active":
                    raise RegistryError(
                        self.display_uri,
                        f"experiment {name!r} was deleted",
                        "restore it in MLflow or name another",
                    )
                return str(existing.experiment_id)
            location = (self.artifacts / re.sub(r"[^\w.-]", "_", name)).as_uri() if self.artifacts else None
            return str(self.client.create_experiment(name, artifact_location=location, tags=EXPERIMENT_TAGS))

    def log_model(self, bundle: Path, run_id: str, tags: Mapping[str, str] | None = None) -> LoggedBundle:
        """Log a bundle as the model of a run: code and the bundle, with signature, example and tags; no pickle.

        `tags`: in addition to those from the bundle's card; a version that is registered of the model gets them too. An
        interrupted attempt is completed, and a bundle that the run has already is not logged again.
        """
        from seq2seq.bundle import read_card, read_readme  # imports torch, which a list of models does not need

        card = read_card(bundle)
        with self.errors(), tempfile.TemporaryDirectory() as temporary:
            # MLflow stores an artifact under its folder's own name, which has to be `bundle`.
            named = bundle.resolve()
            if named.name != "bundle":
                named = shutil.copytree(named, Path(temporary, "bundle"))
            run, logged_model = self.client.get_run(run_id), None
            for earlier in self.logged(run):
                if earlier.tags.get("weights_sha256") == card.weights_sha256:
                    if earlier.status == LoggedModelStatus.READY:
                        return LoggedBundle(earlier.model_id, run_id, read_readme(bundle))
                    logged_model = earlier
                elif earlier.status != LoggedModelStatus.READY:
                    self.client.delete_logged_model(earlier.model_id)
            logged_model = logged_model or self.client.create_logged_model(
                run.info.experiment_id,
                LOGGED_MODEL_NAME,
                source_run_id=run_id,
                tags=model_tags(card) | dict(tags or {}),
                params=run.data.params,
            )
            files = Path(temporary, "model")
            with _as_current_store(self.uri):
                mlflow.pyfunc.save_model(
                    files,
                    mlflow_model=Model(
                        logged_model.artifact_location,
                        run_id,
                        model_uuid=logged_model.model_id,
                        model_id=logged_model.model_id,
                    ),
                    python_model=str(Path(__file__).with_name("pyfunc.py")),
                    artifacts={"bundle": str(named)},
                    signature=model_signature(card),
                    input_example=input_example(card),
                    pip_requirements=pip_requirements(),
                )
            for compiled in list(files.rglob("__pycache__")):
                shutil.rmtree(compiled)
            # The steps of MLflow's `Model.log` in an order that tolerates interruption: `log` adds the model to the
            # run's outputs before the model has its files.
            self.client.log_model_artifacts(logged_model.model_id, str(files))
            if logged_model.model_id not in {
                output.model_id for output in (run.outputs and run.outputs.model_outputs) or []
            }:
                self.client.log_outputs(run_id, [LoggedModelOutput(logged_model.model_id, step=0)])
            self.client.finalize_logged_model(logged_model.model_id, LoggedModelStatus.READY)
        return LoggedBundle(logged_model.model_id, run_id, read_readme(bundle))

    def register(self, logged: LoggedBundle, name: str, champion: bool = True) -> str:
        """Register a logged model as the next version of `name`; returns the version.

        Where a name has no champion yet, the version becomes it, unless `champion` is False; later ones have to be
        promoted. Raises UsageError for an invalid name.
        """
        check_name(name)
        with self.errors(), _as_current_store(self.uri):
            if all(known.name != name for known in self._list_models()):
                self.client.create_registered_model(name)
            source = f"models:/{logged.model_id}"
            # of an interrupted attempt
            version = next((v for v in self._list_versions(name) if v.source == source), None)
            if version is None:
                model = self.client.get_logged_model(logged.model_id)
                version = self.client.create_model_version(
                    name,
                    source,
                    run_id=logged.run_id,
                    model_id=logged.model_id,
                    tags={key: value for key, value in model.tags.items() if not key.startswith("mlflow.")},
                )
                card = readme_of_version(logged.description, name, str(version.version))
                self.client.update_model_version(name, version.version, card)
            if champion and CHAMPION not in self.client.get_registered_model(name).aliases:
                self.client.set_registered_model_alias(name, CHAMPION, version.version)
            return str(version.version)

    def find_version_by_weights(self, name: str, weights_sha256: str, besides: str) -> str | None:
        """The first version of a registered model that has these weights, other than version `besides`."""
        with self.errors():
            versions = [v for v in self._list_versions(name) if v.tags.get("weights_sha256") == weights_sha256]
            return min((str(v.version) for v in versions if str(v.version) != besides), key=int, default=None)

    def alias_target(self, name: str, version: str, alias: str = CHAMPION) -> str | None:
        """The version that an alias points to and that a promotion would replace; None where the alias is new.

        Raises RegistryError for a name or version that is not registered, UsageError for an invalid one.
        """
        parsed = parse_model_name(f"models:/{name}/{version}")
        if not isinstance(parsed, VersionName) or not isinstance(
            parse_model_name(f"models:/{name}@{alias}"), AliasName
        ):
            raise UsageError(f"{name} {version} {alias}", "no name, version and alias", "see interlinear models")
        self._get_version(parsed)
        current = self._get_model(name).aliases.get(alias)
        return None if current is None else str(current)

    def promote(self, name: str, version: str, alias: str = CHAMPION, promotion: "Promotion | None" = None) -> None:
        """Let an alias point to a version, whose tags record who did it, when and why.

        Raises the errors of `alias_target`, and RegistryError where the alias no longer points to the version to be
        replaced.
        """
        current = self.alias_target(name, version, alias)
        promotion = promotion or Promotion(current)
        if promotion.instead_of != current:
            raise RegistryError(
                f"models:/{name}@{alias}",
                f"somebody has let it point to version {current} in the meantime",
                "look at that one, and promote again",
            )
        with self.errors():
            for key, value in promotion.tags(version).items():
                self.client.set_model_version_tag(name, version, f"{alias}.{key}", value)
            self.client.set_registered_model_alias(name, alias, version)

    def list_models(self) -> list[ModelRecord]:
        """Every version of every registered model, by name, newest first."""
        with self.errors():
            aliases = {
                (model.name, str(version)): tuple(sorted(a for a, v in model.aliases.items() if str(v) == str(version)))
                for model in self._list_models()
                for version in model.aliases.values()
            }
            versions = list(_paginate(self.client.search_model_versions))
        records = [_to_model_record(one, aliases.get((one.name, str(one.version)), ())) for one in versions]
        return sorted(records, key=lambda record: (record.name, -int(record.version)))

    def alias_version(self, name: AliasName) -> str:
        """The version that an alias points to, by one request. Raises the errors of `find`."""
        if self.uri.startswith("sqlite"):
            with self.errors():
                # SQLite would create a missing file, and find it empty
                check_reachable(self.uri, create=False)
        return str(self._get_by_alias(name).version)

    def find(self, name: ModelName) -> StoredModel:
        """The location of the model that a name refers to, without downloading it.

        Raises RegistryError for an unknown name (with similar ones), version, alias or run.
        """
        match name:
            case FolderName(path):
                return StoredModel(None, None, str(path), path)
            case RunName():
                return self._model_of_run(name)
            case VersionName():
                version = self._get_version(name)
            case AliasName():
                version = self._get_by_alias(name)
        with self.errors():
            model_id = re.fullmatch(r"models:/(m-\w+)", version.source or "")
            location = (
                self.client.get_logged_model(model_id[1]).artifact_location
                if model_id
                else self.client.get_model_version_download_uri(version.name, version.version)
            )
        return self._stored_model(version.name, str(version.version), location)

    def download(self, stored: StoredModel, folder: Path) -> Path:
        """Download a model's files into `folder`; returns their folder in it."""
        with self.errors():
            return Path(
                mlflow.artifacts.download_artifacts(
                    artifact_uri=stored.location, dst_path=str(folder), tracking_uri=self.uri, registry_uri=self.uri
                )
            )

    def size(self, stored: StoredModel) -> int:
        """Size of a model's files in bytes."""
        from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

        total, folders = 0, [""]
        with self.errors():
            files = get_artifact_repository(stored.location, tracking_uri=self.uri, registry_uri=self.uri)
            while folders:
                for info in files.list_artifacts(folders.pop()):
                    total += 0 if info.is_dir else int(info.file_size or 0)
                    folders += [info.path] if info.is_dir else []
        return total

    def _list_models(self) -> Iterator[RegisteredModel]:
        return _paginate(self.client.search_registered_models)

    def _get_model(self, name: str) -> RegisteredModel:
        with self.errors():
            models = {model.name: model for model in self._list_models()}
        if name not in models:
            similar = difflib.get_close_matches(name, models, n=5, cutoff=0.5) or sorted(models)[:5]
            raise UnknownModelError(
                self.display_uri, f"no model is registered as {name!r}", _choices("there are", similar)
            )
        return models[name]

    def _get_by_alias(self, name: AliasName) -> ModelVersion:
        """The version by its alias; everything is listed only for the error message. `latest` is an alias that MLflow
        defines itself and that nobody has set, so it counts as unknown."""
        version = None
        if name.alias.lower() != "latest":
            version = self._get_or_none(lambda: self.client.get_model_version_by_alias(name.name, name.alias))
        if version is not None:
            return version
        aliases = sorted(self._get_model(name.name).aliases)
        known = _choices("its aliases are", aliases)
        remedy = known if aliases else f"let it point to a version: interlinear promote {name.name} VERSION"
        raise UnknownModelError(str(name), f"{name.name!r} has no alias {name.alias!r}", remedy)

    def _get_version(self, name: VersionName) -> ModelVersion:
        registered = None
        if len(name.version) <= _MAX_DIGITS:
            registered = self._get_or_none(lambda: self.client.get_model_version(name.name, name.version))
        if registered is not None:
            return registered
        self._get_model(name.name)
        with self.errors():
            known = sorted((str(version.version) for version in self._list_versions(name.name)), key=int)
        raise UnknownModelError(str(name), f"{name.name!r} has no version {name.version}", _choices("it has", known))

    def _get_or_none(self, ask: Callable[[], ModelVersion]) -> ModelVersion | None:
        """The result of a request; None where MLflow does not know the name. Raises RegistryError."""
        with self.errors():
            try:
                return ask()
            except MlflowException as error:
                if error.error_code not in _MISSING:
                    raise
                return None

    def _list_versions(self, name: str) -> Iterator[ModelVersion]:
        return (version for version in _paginate(self.client.search_model_versions) if version.name == name)

    def logged(self, run: Run, name: str = LOGGED_MODEL_NAME) -> list[LoggedModel]:
        """The models that a run has logged under a name, oldest first, including interrupted attempts."""
        models = self.client.search_logged_models(
            [run.info.experiment_id], f"source_run_id = '{run.info.run_id}'", max_results=50
        )
        return sorted(
            (model for model in models if model.name == name), key=lambda model: int(model.creation_timestamp)
        )

    def _model_of_run(self, name: RunName) -> StoredModel:
        with self.errors():
            try:
                run = self.client.get_run(name.run_id)
            except MlflowException as error:
                if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                    raise
                raise UnknownModelError(self.display_uri, f"there is no run {name.run_id!r}") from None
            ready = [model for model in self.logged(run, name.model) if model.status == LoggedModelStatus.READY]
            if ready:
                return self._stored_model(None, None, ready[-1].artifact_location)
            return self._stored_model(None, None, f"{run.info.artifact_uri}/{name.model}")

    def _stored_model(self, name: str | None, version: str | None, location: str) -> StoredModel:
        """Raises RegistryError for missing files, and for an address that is not in an artifact store."""
        parts = urlsplit(location)
        if parts.scheme in ("", "file"):
            folder = Path(url2pathname(parts.path))
            if not folder.is_dir():
                raise RegistryError(
                    f"models:/{name}/{version}" if name else location,
                    f"its files are not at {folder}",
                    "they were moved or deleted, or lie on another machine",
                )
            return StoredModel(name, version, location, folder)
        proxied = parts.scheme == "mlflow-artifacts" and parts.netloc in ("", urlsplit(self.uri).netloc)
        if not proxied and parts.scheme not in _OBJECT_STORES:
            raise RegistryError(self.display_uri, f"a model lies at {location}", "only artifact stores are read")
        return StoredModel(name, version, location, None)


def _is_temporary(error: Exception) -> bool:
    """Whether a retry may succeed: the store did not answer, or reported a server error."""
    if isinstance(error, MlflowException):
        return int(error.get_http_status_code()) >= 500  # type: ignore[no-untyped-call]
    return isinstance(
        error, OperationalError | requests.ConnectionError | requests.Timeout | ConnectionError | TimeoutError
    )


@contextmanager
def _as_current_store(uri: str) -> Iterator[None]:
    """Makes a store the default of MLflow's global functions, and restores the previous one."""
    before = os.environ.get("MLFLOW_TRACKING_URI")
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(before)  # type: ignore[arg-type]  # None unsets it


def _paginate(search: Callable[..., PagedList[_T]]) -> Iterator[_T]:
    page = search()
    yield from page
    while page.token:
        page = search(page_token=page.token)
        yield from page


def _choices(lead: str, choices: Sequence[str]) -> str:
    return f"{lead} {', '.join(choices)}" if choices else "there are none yet"


def _to_model_record(version: ModelVersion, aliases: tuple[str, ...]) -> ModelRecord:
    bleu = version.tags.get("dev_bleu")
    return ModelRecord(
        name=version.name,
        version=str(version.version),
        aliases=aliases,
        run_id=version.run_id,
        created=datetime.fromtimestamp(version.creation_timestamp / 1000, UTC),
        task=version.tags.get("task"),
        languages=version.tags.get("languages"),
        recipe=version.tags.get("recipe"),
        dataset=version.tags.get("dataset"),
        dev_bleu=float(bleu) if bleu else None,
        dev_bleu_of=version.tags.get("dev_bleu_of"),
    )
