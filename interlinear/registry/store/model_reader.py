"""Finds, lists and downloads the models of an MLflow store."""

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import mlflow
from mlflow.entities import LoggedModel, LoggedModelStatus, Run
from mlflow.entities.model_registry import ModelVersion, RegisteredModel
from mlflow.exceptions import MlflowException

from interlinear.errors import RegistryError, UnknownModelError
from interlinear.installation import shell_command
from interlinear.registry.address import check_reachable
from interlinear.registry.names import AliasName, FolderName, ModelName, RunName, VersionName
from interlinear.registry.store.connection import MlflowConnection, paginate
from interlinear.registry.store.records import ModelRecord, RegisteredVersion, StoredModel

ANY_NAME = "model"  # `runs:/ID/model` is the model that a run has logged, whatever its name

_MAX_DIGITS = 9  # of a version's number, within a database's integer type

# URI schemes of artifact stores that are read, besides a folder and the tracking server's own store.
_OBJECT_STORES = ("s3", "gs", "abfss", "wasbs", "hdfs")

# MLflow's error codes for an unknown name.
_MISSING = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE", "NOT_FOUND")


class ModelReader(MlflowConnection):
    """Read access to the models of one store."""

    def list_models(self) -> list[ModelRecord]:
        """Every version of every registered model, by name, newest first."""
        with self.errors():
            aliases = {
                (model.name, str(version)): tuple(sorted(a for a, v in model.aliases.items() if str(v) == str(version)))
                for model in self._list_models()
                for version in model.aliases.values()
            }
            versions = list(paginate(self.client.search_model_versions))
        records = [_to_model_record(one, aliases.get((one.name, str(one.version)), ())) for one in versions]
        return sorted(records, key=lambda record: (record.name, -int(record.version)))

    def find_version_by_weights(self, name: str, weights_sha256: str, besides: str) -> str | None:
        """The first version of a registered model that has these weights, other than version `besides`."""
        with self.errors():
            versions = [v for v in self._list_versions(name) if v.tags.get("weights_sha256") == weights_sha256]
            return min((str(v.version) for v in versions if str(v.version) != besides), key=int, default=None)

    def alias_version(self, name: AliasName) -> RegisteredVersion:
        """The version that an alias points to, by one request. Raises the errors of `find`."""
        if self.uri.startswith("sqlite"):
            with self.errors():
                # SQLite would create a missing file, and find it empty
                check_reachable(self.uri, create=False)
        version = self._get_by_alias(name)
        return RegisteredVersion(str(version.version), version.source or "")

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
        return replace(self._stored_model(version.name, str(version.version), location), source=version.source or "")

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
        return paginate(self.client.search_registered_models)

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
        remedy = known if aliases else f"let it point to a version: {shell_command('promote', name.name, 'VERSION')}"
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
        return (version for version in paginate(self.client.search_model_versions) if version.name == name)

    def logged(self, run: Run, name: str = ANY_NAME) -> list[LoggedModel]:
        """The models that a run has logged under a name, or under any, oldest first, including interrupted attempts."""
        models = self.client.search_logged_models(
            [run.info.experiment_id], f"source_run_id = '{run.info.run_id}'", max_results=50
        )
        named = (model for model in models if name in (model.name, ANY_NAME))
        return sorted(named, key=lambda model: int(model.creation_timestamp))

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
        location = self.address_here(location) or location  # a copied or moved store has its own files
        parts = urlsplit(location)
        if parts.scheme in ("", "file"):
            folder = Path(url2pathname(parts.path))
            if not folder.is_dir():
                raise RegistryError(
                    f"models:/{name}/{version}" if name else location,
                    f"its files are not at {folder}",
                    "they were moved or deleted, or lie on another machine; a store moves with its folder mlartifacts",
                )
            return StoredModel(name, version, location, folder)
        proxied = parts.scheme == "mlflow-artifacts" and parts.netloc in ("", urlsplit(self.uri).netloc)
        if not proxied and parts.scheme not in _OBJECT_STORES:
            raise RegistryError(self.display_uri, f"a model lies at {location}", "only artifact stores are read")
        return StoredModel(name, version, location, None)


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
