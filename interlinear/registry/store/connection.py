"""Connection to an MLflow store: its client, its errors, its experiments."""

import logging
import os
import re
import shlex
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import mlflow
import requests
from mlflow.exceptions import MlflowException
from mlflow.store.entities import PagedList
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NOTE
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from interlinear.errors import RegistryError, RegistryUnavailableError
from interlinear.installation import shell_command
from interlinear.registry.address import LOCKED, check_reachable, mask_password, sqlite_file, tracking_uri
from interlinear.registry.credentials import mask_credentials
from interlinear.registry.relocation import address_here

_T = TypeVar("_T")

EXPERIMENT_TAGS = {
    "mlflow.experimentKind": "custom_model_development",  # so that MLflow's page shows runs and curves at once
    MLFLOW_RUN_NOTE: "Trainings: a run for each, with its recipe, data, curves, figures and model, and runs of its "
    "evaluations below it. Tunings, and the seeds of a system, are runs below a common one.",
}

# Packages of object stores' clients, whose errors MLflow passes on.
_OBJECT_STORE_CLIENTS = ("botocore", "boto3", "s3transfer", "google", "azure")
_UNANSWERED = (
    "ConnectionError",
    "HTTPClientError",
    "ServiceRequestError",
    "ServerError",
)  # names of their exceptions, or of base classes

_ERRORS = (MlflowException, SQLAlchemyError, requests.RequestException, OSError)

# MLflow's error codes for an unknown user and for missing permissions.
_UNKNOWN_USER = ("UNAUTHENTICATED", "CUSTOMER_UNAUTHORIZED", "PERMISSION_DENIED")
_CREDENTIALS = "give MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, of one who may do this"


class MlflowConnection:
    """Connection to an MLflow store by its address: `tracking`, else MLFLOW_TRACKING_URI, else `./mlflow.db`.

    Artifacts of a local database are in `mlartifacts` beside it; a server decides where its artifacts are. Every method
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
        os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")  # which is for results
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
        """Turns errors of MLflow, and of the clients that read its files, into a RegistryError that names the store."""
        try:
            yield
        except Exception as error:
            if not (isinstance(error, _ERRORS) or is_of_object_store(error)):
                raise
            whole = mask_credentials(" ".join(str(error).split()) or type(error).__name__, self.uri)
            problem = textwrap.shorten(whole, 300, placeholder=" ...")
            if "mlflow db upgrade" in whole:
                upgrade = shlex.join(["mlflow", "db", "upgrade", self.display_uri])
                remedy = f"if that is newer, install it; if older, copy the database, and then run: {upgrade}"
                raise RegistryError(self.display_uri, "it is of another version of MLflow", remedy) from error
            if "database is locked" in whole:
                remedy = "wait until that has ended, and try again"
                raise RegistryUnavailableError(self.display_uri, LOCKED, remedy) from error
            if isinstance(error, MlflowException) and error.error_code in _UNKNOWN_USER:
                raise RegistryError(self.display_uri, f"it does not let us in ({problem})", _CREDENTIALS) from error
            kind = RegistryUnavailableError if is_temporary(error) else RegistryError
            raise kind(self.display_uri, problem, "look whether it may be written") from error

    def address_here(self, location: str) -> str | None:
        """The address beside a SQLite file for a record's `location`, if the store was copied or moved."""
        local = self.artifacts if self.uri.startswith("sqlite") else None
        return address_here(location, local) if local else None

    def experiment(self, name: str) -> str:
        """The id of an experiment, which is created where it does not exist."""
        with self.errors():
            existing = self.client.get_experiment_by_name(name)
            if existing is None:
                location = (self.artifacts / re.sub(r"[^\w.-]", "_", name)).as_uri() if self.artifacts else None
                with if_missing():
                    return str(self.client.create_experiment(name, artifact_location=location, tags=EXPERIMENT_TAGS))
                existing = self.client.get_experiment_by_name(name)
                assert existing
            if existing.lifecycle_stage != "active":
                raise RegistryError(
                    self.display_uri, f"experiment {name!r} was deleted", "restore it in MLflow or name another"
                )
            if self.address_here(existing.artifact_location):
                raise RegistryError(
                    self.display_uri,
                    f"it was copied or moved, and its experiment {name!r} writes to {existing.artifact_location}",
                    f"let it write here: {shell_command('models', '--moved', '--tracking', self.display_uri)}",
                )
            return str(existing.experiment_id)


@contextmanager
def if_missing() -> Iterator[None]:
    """Creates something in a store unless another process has done so since it was looked up."""
    try:
        yield
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise


def is_of_object_store(error: Exception) -> bool:
    """Whether an error is of a client of S3 or the like. None of them need be installed."""
    return type(error).__module__.partition(".")[0] in _OBJECT_STORE_CLIENTS


def is_temporary(error: Exception) -> bool:
    """Whether a retry may succeed: the store did not answer, or reported a server error."""
    if is_of_object_store(error):
        return any(kind.__name__ in _UNANSWERED for kind in type(error).__mro__)
    if isinstance(error, MlflowException):
        return int(error.get_http_status_code()) >= 500
    return isinstance(
        error, OperationalError | requests.ConnectionError | requests.Timeout | ConnectionError | TimeoutError
    )


def paginate(search: Callable[..., PagedList[_T]]) -> Iterator[_T]:
    page = search()
    yield from page
    while page.token:
        page = search(page_token=page.token)
        yield from page
