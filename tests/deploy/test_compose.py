"""docker-compose.yml: checked by its schema, by linters, and as `tests.stack` reads it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from service.inference.images import BASE64_OVERHEAD
from service.settings import Settings
from tests.stack.compose import read

pytestmark = pytest.mark.slow

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
    assert all(port.startswith("127.0.0.1:") for port in service.ports)
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


def test_documents_leave_room_for_keys():
    service = STACK.services["service"]
    volumes = {path: name for name, path in (volume.split(":")[:2] for volume in service.volumes)}
    folder = service.environment["INTERLINEAR_SERVE_FILES_FOLDER"]
    keys = str(Path(service.environment["INTERLINEAR_SERVE_KEYS"]).parent)
    assert {volumes[folder], volumes[keys]} == {"documents", "keys"}


def test_the_proxy_keeps_the_limits_that_the_security_page_leaves_to_it():
    """The file of nginx that compose mounts: times, lengths and connections are limited, and what the service allows
    is let through."""
    path = "deploy/nginx/interlinear.conf"
    proxy = STACK.services["proxy"]
    assert f"./{path}:{proxy.command[1]}:ro" in proxy.volumes
    assert path in (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    text = re.sub("#.*", "", (ROOT / path).read_text())
    said = [(name, *words.split()) for name, words in re.findall(r"(\w+) ([^;{}]+);", text)]

    def numbers(name: str) -> list[int]:
        units = {"s": 1, "m": 2**20, "k": 2**10}
        return [int(words[0][:-1]) * units[words[0][-1]] for directive, *words in said if directive == name]

    settings = Settings()
    for slow in ("client_header_timeout", "client_body_timeout", "send_timeout"):
        assert numbers(slow) and numbers(slow)[0] <= settings.header_seconds
    assert ("limit_conn", "addresses", "50") in said and ("proxy_request_buffering", "on") in said
    largest = settings.body_bytes + max(BASE64_OVERHEAD * settings.image_bytes, settings.file_bytes)
    assert largest <= numbers("client_max_body_size")[0] < 2 * largest
    ordinary, documents = numbers("proxy_read_timeout")
    assert settings.seconds < ordinary < settings.file_work_seconds < documents, "clients see the service's 504"
    assert ("proxy_set_header", "X-Forwarded-For", "$remote_addr") in said, "replaced, not appended to"
    assert ("deny", "all") in said and [words for name, *words in said if name == "listen"] == [["8443", "ssl"]]


def test_nginx_accepts_the_file_of_the_proxy(tmp_path):
    if not shutil.which("nginx"):
        pytest.skip("nginx is not here: apt-get install nginx-light")
    subject = ["-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    passes("openssl", "req", *subject, "-keyout", tmp_path / "tls_key", "-out", tmp_path / "tls_certificate")
    text = (ROOT / "deploy" / "nginx" / "interlinear.conf").read_text()
    (tmp_path / "a.conf").write_text(text.replace("/run/secrets", str(tmp_path)).replace("service:8", "127.0.0.1:8"))
    passes("nginx", "-t", "-e", "/dev/stderr", "-c", tmp_path / "a.conf")


def test_no_secret_is_in_the_environment():
    """Every variable that is named like a secret holds the path of one."""
    variables = [pair for service in STACK.services.values() for pair in service.environment.items()]
    secret = {name: value for name, value in variables if re.search("PASSWORD|SECRET|TOKEN|KEY", name)}
    assert {"POSTGRES_PASSWORD_FILE", "GF_SECURITY_ADMIN_PASSWORD__FILE", "INTERLINEAR_SERVE_KEYS"} <= secret.keys()
    for name, value in secret.items():
        assert value.startswith(("/run/secrets/", "/var/lib/interlinear/")), name


def test_everything_that_a_service_uses_is_declared():
    services = STACK.services.values()
    assert {secret.source for one in services for secret in one.secrets} == STACK.secrets.keys()
    assert {config.source for one in services for config in one.configs} == STACK.configs.keys()
    volumes = {volume.partition(":")[0] for one in services for volume in one.volumes}
    assert volumes >= STACK.volumes.keys()
    for path in [*volumes - STACK.volumes.keys(), *(one["file"] for one in STACK.configs.values())]:
        assert (ROOT / path).exists(), path


def test_operations_page_explains_every_alert():
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    rules = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yaml").read_text())["groups"][0]["rules"]
    assert rules
    for rule in rules:
        assert f"| `{rule['alert']}` ({rule['labels']['severity']}) |" in page
