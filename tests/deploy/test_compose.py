"""docker-compose.yml: checked by its schema, by linters, and as `tests.stack` reads it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from seq2seq.errors import UsageError
from service.settings import Settings
from tests.stack import images
from tests.stack.compose import read

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
FILES = ["docker-compose.yml", "docker-compose.gpu.yml"]
STACK = read(ROOT / "docker-compose.yml", {})


def passes(*words: str | Path) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_files_conform_to_the_compose_specification():
    passes(BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", *FILES)


def test_gpus_are_assigned_and_cpu_limits_removed():
    file = yaml.safe_load((ROOT / "docker-compose.gpu.yml").read_text())["services"]
    base = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    assigned = []
    for name in ("service", "ray-worker"):
        merged = base[name]["deploy"]["resources"]["limits"] | file[name]["deploy"]["resources"]["limits"]
        assert merged["cpus"] == "0", "no limit: a process with a GPU is not held to one core"
        assert int(re.search(r":-(\d+)G\}$", merged["memory"])[1]) >= 16, "CUDA's libraries alone take gigabytes"
        assert "reservations" not in file[name]["deploy"]["resources"], "no device beside those that are assigned"
        assert file[name]["runtime"] == "nvidia"
        assigned.append(re.fullmatch(r"\$\{(\w+):\?.*\}", file[name]["environment"]["NVIDIA_VISIBLE_DEVICES"])[1])
    assert assigned == ["SERVICE_GPUS", "WORKER_GPUS"], "each its own, and nobody has any unasked"
    page = (ROOT / "docs" / "deploy-compose.md").read_text(encoding="utf-8")
    assert all(f"`{name}" in page or f"export {name}" in page for name in assigned)


def test_the_security_linter_finds_nothing_severe():
    passes(BIN / "compose-lint", "docker-compose.yml")


def test_yaml_is_tidy():
    passes(BIN / "yamllint", "--strict", *FILES, "deploy")


def test_prometheus_accepts_its_configuration():
    if not shutil.which("promtool"):
        pytest.skip("promtool is not here: apt-get install prometheus")
    passes("promtool", "check", "config", "deploy/prometheus/prometheus.yml")


@pytest.mark.parametrize("name", STACK.services)
def test_every_service_is_hardened_and_its_ports_are_local(name):
    service = STACK.services[name]  # the model's types require that it is read-only and without capabilities
    assert service.user.split(":")[0] not in ("0", "root")
    assert {port.host for port in service.ports} <= {"127.0.0.1"}
    assert service.deploy.resources["limits"]["memory"] and service.deploy.resources["limits"]["cpus"]
    assert service.entrypoint or service.command, "what it runs is said, not left to an image"
    _, _, tag = service.image.partition(":")
    assert tag and tag != "latest"


def test_the_service_has_memory_for_documents():
    """Beside torch and a model, which take less than a gigabyte."""
    service = STACK.services["service"]
    limit = int(re.fullmatch(r"(\d+)G", service.deploy.resources["limits"]["memory"])[1]) * 2**30
    settings = Settings()
    changed = {"INTERLINEAR_SERVE_FILES", "INTERLINEAR_SERVE_FILE_JOBS", "INTERLINEAR_SERVE_FILE_MEGABYTES"}
    assert settings.files and not changed & service.environment.keys(), "these are the defaults"
    assert limit >= 10**9 + settings.file_jobs * settings.file_megabytes * 10**6


def test_no_secret_is_in_the_environment():
    for service in STACK.services.values():
        for name, value in service.environment.items():
            if any(word in name for word in ("PASSWORD", "SECRET", "TOKEN", "KEY")):
                assert value.startswith(("/run/secrets/", "/var/lib/interlinear/")), name


def test_everything_that_a_service_uses_is_declared():
    for service in STACK.services.values():
        assert {secret.source for secret in service.secrets} <= STACK.secrets.keys()
        assert {config.source for config in service.configs} <= STACK.configs.keys()
        for volume in service.volumes:
            assert volume.source in STACK.volumes or (ROOT / volume.source).exists(), volume.source
    for config in STACK.configs.values():
        assert (ROOT / config.file).is_file()


def test_services_start_after_their_dependencies():
    order = [name for name, _ in STACK.in_order(None)]
    assert order.index("postgres") < order.index("mlflow") < order.index("ray-head") < order.index("ray-worker")
    assert "service" not in order and "service" in [name for name, _ in STACK.in_order("serve")]
    assert [name for name, _ in STACK.in_order(None, ("service",))] == ["postgres", "mlflow", "service"]
    with pytest.raises(UsageError, match="nobody: there is no such service"):
        list(STACK.in_order(None, ("nobody",)))


def test_variables_are_substituted_as_by_compose(tmp_path):
    model = {"INTERLINEAR_MODEL": "models:/other@champion", "SECRETS": "", "RAY_WORKERS": "3"}
    stack = read(ROOT / "docker-compose.yml", model)
    assert "--model=models:/other@champion" in stack.services["service"].command
    assert "--model=models:/de-en@champion" in STACK.services["service"].command
    assert stack.secrets["ray_token"].file == Path("secrets/ray_token"), ":- takes the default for what is empty too"
    assert stack.services["ray-worker"].deploy.replicas == 3
    assert 'PGPASSWORD="$(cat ' in STACK.services["mlflow"].command[-1], "$$ is one dollar"
    cpu = {"TORCH_INDEX": "${TORCH_INDEX-https://download.pytorch.org/whl/cpu}"}
    assert yaml.safe_load((ROOT / FILES[0]).read_text())["services"]["service"]["build"]["args"] == cpu
    assert read(ROOT / FILES[0], {"TORCH_INDEX": ""}).services["service"].build["args"] == {"TORCH_INDEX": ""}


def test_features_that_the_local_stack_lacks_are_refused(tmp_path):
    content = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    changed = tmp_path / "docker-compose.yml"

    content["services"]["mlflow"]["network_mode"] = "host"
    changed.write_text(yaml.safe_dump(content))
    with pytest.raises(UsageError, match=r"services\.mlflow\.network_mode: extra inputs are not permitted"):
        read(changed, {})

    del content["services"]["mlflow"]["network_mode"]
    content["services"]["mlflow"]["environment"]["NEW"] = "${NOT_SET}"
    changed.write_text(yaml.safe_dump(content))
    with pytest.raises(UsageError, match="the variable NOT_SET is not set"):
        read(changed, {})


def test_our_services_get_the_images_environment():
    environment = images.environment(STACK.services["ray-head"], ROOT / "Dockerfile")
    assert environment["HOME"] == "/home/interlinear" and environment["XDG_CACHE_HOME"] == "/var/cache/interlinear"
    assert environment["RAY_AUTH_MODE"] == "token" and environment["MLFLOW_TRACKING_URI"] == "http://mlflow:5000"
    assert "HOME" not in images.environment(STACK.services["postgres"], ROOT / "Dockerfile")


def test_operations_page_explains_every_alert():
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text())["groups"][0]["rules"]
    for rule in rules:
        assert f"| `{rule['alert']}` ({rule['labels']['severity']}) |" in page
