"""Logs bundles as models, registers them as versions of a name, and moves aliases."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import mlflow
from mlflow.entities import LoggedModelOutput, LoggedModelStatus
from mlflow.models import Model
from mlflow.utils.mlflow_tags import MLFLOW_MODEL_VERSIONS

from interlinear.bundle.readme import readme_of_version
from interlinear.errors import RegistryError, UsageError
from interlinear.registry.names import CHAMPION, VersionName, check_alias, check_name, parse_model_name
from interlinear.registry.store.connection import if_missing
from interlinear.registry.store.mlflow_metadata import (
    SHORTLIST_TAG,
    input_example,
    model_signature,
    model_tags,
    pip_requirements,
    registered_model_description,
)
from interlinear.registry.store.model_reader import ModelReader
from interlinear.registry.store.records import LoggedBundle, Promotion


class MlflowStore(ModelReader):
    """One MLflow store: reads models, logs them, registers and promotes them."""

    def log_model(self, bundle: Path, run_id: str, tags: Mapping[str, str] | None = None) -> LoggedBundle:
        """Log a bundle as the model of a run: code and the bundle, with signature, example and tags; no pickle.

        `tags`: in addition to the tags from the bundle's card; a version that is registered of the model gets them too.
        An interrupted attempt is completed, and a bundle that the run has already is not logged again.
        """
        from interlinear.bundle import read_card, read_readme  # imports torch, which a list of models does not need

        card = read_card(bundle)
        own = model_tags(card)
        with self.errors(), tempfile.TemporaryDirectory() as temporary:
            # MLflow stores an artifact under its folder's own name, which has to be `bundle`.
            named = bundle.resolve()
            if named.name != "bundle":
                named = shutil.copytree(named, Path(temporary, "bundle"))
            run, logged_model = self.client.get_run(run_id), None
            for earlier in self.logged(run):
                if all(earlier.tags.get(tag) == own.get(tag) for tag in ("weights_sha256", SHORTLIST_TAG)):
                    if earlier.status == LoggedModelStatus.READY:
                        return LoggedBundle(earlier.model_id, run_id, read_readme(bundle))
                    logged_model = earlier
                elif earlier.status != LoggedModelStatus.READY:
                    self.client.delete_logged_model(earlier.model_id)
            logged_model = logged_model or self.client.create_logged_model(
                run.info.experiment_id,
                logged_model_name(str(run.info.run_name)),
                source_run_id=run_id,
                tags=dict(tags or {}) | own,
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
                    artifacts={"bundle": named.as_uri()},  # MLflow would decode a path too
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

    def log_with_shortlist(self, bundle: Path, run_id: str) -> LoggedBundle:
        """Log the bundle of a model that a run has logged, which has got a shortlist since then, as a further model.

        It has the other one's tags, such as the fingerprints of its training data.
        """
        from interlinear.bundle import read_card

        weights = read_card(bundle).weights_sha256
        with self.errors():
            logged = self.logged(self.client.get_run(run_id))
        tags: dict[str, str] = next((one.tags for one in logged if one.tags.get("weights_sha256") == weights), {})
        return self.log_model(
            bundle, run_id, {key: value for key, value in tags.items() if not key.startswith("mlflow.")}
        )

    def register(self, logged: LoggedBundle, name: str, champion: bool = True) -> str:
        """Register a logged model as the next version of `name`; returns the version.

        Where a name has no champion yet, the version becomes it, unless `champion` is False; later ones have to be
        promoted. Raises UsageError for an invalid name.
        """
        check_name(name)
        with self.errors(), _as_current_store(self.uri):
            model = self.client.get_logged_model(logged.model_id)
            if all(known.name != name for known in self._list_models()):
                about = registered_model_description(name, model.tags, self.display_uri)
                with if_missing():
                    self.client.create_registered_model(name, description=about)
            source = f"models:/{logged.model_id}"
            # of an interrupted attempt
            version = next((v for v in self._list_versions(name) if v.source == source), None)
            if version is None:
                version = self.client.create_model_version(
                    name,
                    source,
                    run_id=logged.run_id,
                    model_id=logged.model_id,
                    tags={key: value for key, value in model.tags.items() if not key.startswith("mlflow.")},
                )
                card = readme_of_version(logged.description, name, str(version.version), self.display_uri)
                self.client.update_model_version(name, version.version, card)
            # As MLflow's own `register_model` does: its page shows by this tag where a logged model is registered.
            known = json.loads(model.tags.get(MLFLOW_MODEL_VERSIONS, "[]"))
            if (name, str(version.version)) not in {(one["name"], str(one["version"])) for one in known}:
                versions = json.dumps([*known, {"name": name, "version": version.version}])
                self.client.set_logged_model_tags(logged.model_id, {MLFLOW_MODEL_VERSIONS: versions})
            if champion and CHAMPION not in self.client.get_registered_model(name).aliases:
                self.client.set_registered_model_alias(name, CHAMPION, version.version)
            return str(version.version)

    def alias_target(self, name: str, version: str, alias: str = CHAMPION) -> str | None:
        """The version that an alias points to and that a promotion would replace; None where the alias is new.

        Raises RegistryError for a name or version that is not registered, UsageError for an invalid one.
        """
        parsed = parse_model_name(f"models:/{name}/{version}")
        if not isinstance(parsed, VersionName):
            raise UsageError(f"{name} {version}", "no name and version", "see interlinear models")
        check_alias(alias)
        self._get_version(parsed)
        current = self._get_model(name).aliases.get(alias)
        return None if current is None else str(current)

    def promote(self, name: str, version: str, alias: str = CHAMPION, promotion: Promotion | None = None) -> None:
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
            self.client.set_registered_model_alias(name, alias, version)
            for key, value in promotion.tags(version).items():
                self.client.set_model_version_tag(name, version, f"{alias}.{key}", value)


def logged_model_name(run_name: str) -> str:
    """The name of a run's model: the run's, without the characters that MLflow refuses in it."""
    return re.sub(r"""[/:.%"']""", "_", run_name)


@contextmanager
def _as_current_store(uri: str) -> Iterator[None]:
    """Makes a store the default of MLflow's global functions, and restores the previous one."""
    before = os.environ.get("MLFLOW_TRACKING_URI")
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(before)  # type: ignore[arg-type]  # None unsets it
