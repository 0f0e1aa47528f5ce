"""The toy training, finished once for all tests that compare with it or go on from it."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from training.events import Outcome


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, "Outcome"]:
    """A finished training of three epochs, and its folder, which tests copy."""
    # Imported late: the tests for a GPU run where few of the project's packages are.
    from tests.training.toy import toy_job
    from training.loop.trainer import train

    folder = tmp_path_factory.mktemp("finished")
    return folder, train(toy_job(folder))


@pytest.fixture
def toy_weights(finished_run: tuple[Path, "Outcome"]) -> str:
    """The weights' hash of the toy training, wherever it runs and however often it is interrupted."""
    return str(finished_run[1].weights_sha256)
