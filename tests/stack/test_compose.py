"""How docker-compose.yml is read for processes."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from tests.stack import network
from tests.stack.compose import read
from tests.stack.sandbox import ROOT, environment

pytestmark = pytest.mark.slow

PATH = ROOT / "docker-compose.yml"
FILE = read(PATH, {})


def test_services_start_after_their_dependencies() -> None:
    order = list(FILE.in_order())
    assert order.index("postgres") < order.index("mlflow") < order.index("ray-head") < order.index("ray-worker")
    assert order.index("mlflow") < order.index("service") and sorted(order) == sorted(FILE.services)
    assert [name for name, service in FILE.services.items() if service.profiles] == ["service", "proxy"]


def test_variables_are_substituted_as_by_compose() -> None:
    file = read(PATH, {"INTERLINEAR_MODEL": "models:/other@champion", "SECRETS": "", "RAY_WORKERS": "3"})
    assert "--model=models:/other@champion" in file.services["service"].command
    assert "--model=models:/de-en@champion" in FILE.services["service"].command
    assert file.secrets["ray_token"]["file"] == Path("secrets/ray_token"), ":- takes the default for what is empty too"
    assert file.services["ray-worker"].deploy.replicas == 3
    assert 'PGPASSWORD="$(cat ' in FILE.services["mlflow"].command[-1], "$$ is one dollar"
    assert FILE.services["service"].build == build_of("https://download.pytorch.org/whl/cpu")
    assert read(PATH, {"TORCH_INDEX": ""}).services["service"].build == build_of(""), "- keeps what is empty"


def build_of(index: str) -> dict[str, Any]:
    return {"context": ".", "target": "serve", "args": {"TORCH_INDEX": index}}


def test_keys_that_processes_do_not_support_are_refused(tmp_path: Path) -> None:
    content = yaml.safe_load(PATH.read_text())
    changed = tmp_path / "docker-compose.yml"

    content["services"]["mlflow"]["network_mode"] = "host"
    changed.write_text(yaml.safe_dump(content))
    with pytest.raises(ValidationError, match=r"services\.mlflow\.network_mode\s+Extra inputs are not permitted"):
        read(changed, {})

    del content["services"]["mlflow"]["network_mode"]
    content["services"]["mlflow"]["environment"]["NEW"] = "${NOT_SET}"
    changed.write_text(yaml.safe_dump(content))
    with pytest.raises(KeyError, match="NOT_SET"):
        read(changed, {})


def test_our_services_get_the_images_environment() -> None:
    variables = environment(FILE.services["ray-head"])
    assert variables["HOME"] == "/home/interlinear" and variables["XDG_CACHE_HOME"] == "/var/cache/interlinear"
    assert variables["RAY_AUTH_MODE"] == "token" and variables["MLFLOW_TRACKING_URI"] == "http://mlflow:5000"
    assert "HOME" not in environment(FILE.services["postgres"])


def test_every_instance_has_an_address() -> None:
    hosts = network.plan(["postgres", "ray-worker", "ray-worker"])
    assert [(host.service, host.number) for host in hosts] == [("postgres", 1), ("ray-worker", 1), ("ray-worker", 2)]
    assert len({host.address for host in hosts}) == len({host.namespace for host in hosts}) == 3
