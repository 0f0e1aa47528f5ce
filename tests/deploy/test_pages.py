"""The pages on deployment and operations: their commands, run or read as a user would."""

import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from service.auth.key_cache import KeyCache
from service.auth.key_store import KeyStore
from tests.deploy.calls import options_of
from training.data.dataset import dataset_names

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
DEPLOY = ROOT / "deploy"
# `docker compose exec|run ... SERVICE COMMAND`: the commands of `service` run here, those of the others do nothing.
DOCKER = """\
#!/bin/sh
for word; do
    shift
    [ "$word" != service ] || exec "$@"
done
"""


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def section(name: str, title: str) -> str:
    """A section of a page."""
    (found,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", page(name), re.M | re.S)
    return found


def blocks(text: str) -> list[str]:
    """The blocks of commands: indented lines."""
    return [textwrap.dedent(block) for block in re.findall(r"(?:^    .*\n)+", text, re.M)]


# Back up and restore.


def files_in_backup(title: str) -> set[str]:
    return set(re.findall(r"\bbackup/([\w.]+)", "".join(blocks(section("operations.md", title)))))


def test_every_file_of_a_backup_is_restored():
    written = files_in_backup("Back up")
    assert {"mlflow.dump", "artifacts.tar.gz", "keys.db", "secrets"} <= written
    assert files_in_backup("Restore") == written


@pytest.fixture
def stack(tmp_path):
    """Runs the commands of a section in a folder with secrets, with the service's volume and a `docker`."""
    program, volume = tmp_path / "bin" / "docker", tmp_path / "volume"
    for folder in (program.parent, volume, tmp_path / "stack"):
        folder.mkdir()
    program.write_text(DOCKER)
    program.chmod(0o755)
    subprocess.run([ROOT / "docker" / "secrets.sh", tmp_path / "stack" / "secrets"], check=True)
    path = os.pathsep.join(map(str, (program.parent, Path(sys.executable).parent, os.environ["PATH"])))

    def run(title: str) -> None:
        script = blocks(section("operations.md", title))[0].replace("/var/lib/interlinear", str(volume))
        subprocess.run(["sh", "-ec", script], cwd=tmp_path / "stack", env={"PATH": path}, check=True)

    return run


def contents(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_keys_and_secrets_survive_a_backup(stack, tmp_path):
    """The newest of several backups into the same folder, restored over other secrets than those of the backup."""
    keys, secrets = tmp_path / "volume" / "keys.db", tmp_path / "stack" / "secrets"
    store = KeyStore(keys)
    store.add("first")
    stack("Back up")
    key = store.add("second")
    (secrets / "ray_token").unlink()
    (secrets / "ray_token").write_text("changed")
    stack("Back up")
    saved = contents(secrets)
    assert contents(tmp_path / "stack" / "backup" / "secrets") == saved

    store.close()
    keys.unlink()
    for path in secrets.iterdir():
        path.unlink()
    subprocess.run([ROOT / "docker" / "secrets.sh", secrets], check=True)
    stack("Restore")
    assert contents(secrets) == saved
    assert secrets.stat().st_mode & 0o777 == 0o700
    assert keys.stat().st_mode & 0o777 == 0o600
    restored = KeyStore(keys)
    found = KeyCache(restored).find(key)
    assert found and found.name == "second"
    restored.close()


def test_a_stack_is_stopped_with_its_service():
    """`docker compose down` leaves the services of a profile that it does not name."""
    stops = [
        (path.name, options)
        for path in (*DOCS.rglob("*.md"), ROOT / "README.md", *ROOT.glob("docker-compose*.yml"))
        for options in re.findall(r"docker compose([^`\n]*?) down\b", path.read_text(encoding="utf-8"))
    ]
    assert "operations.md" in dict(stops)
    assert [one for one in stops if "--profile serve" not in one[1]] == []


# Training.


@pytest.mark.parametrize("name", ["deploy-compose.md", "deploy-gpu-box.md", "deploy-kubernetes.md", "deploy-ray.md"])
def test_a_corpus_is_downloaded_before_a_training_reads_it(name):
    text = page(name)
    for manifest in ("submit.yaml", "train.yaml"):
        text = text.replace(f"-f deploy/kubernetes/{manifest}", (DEPLOY / "kubernetes" / manifest).read_text())
    read = [match for match in re.finditer(r"--data[ =]([\w-]+)", text) if match[1] in dataset_names()]
    corpora = [match for match in read if not match[1].startswith("demo")]  # the demo's text ships
    assert corpora
    for match in corpora:
        assert f"interlinear data get {match[1]}\n" in text[: match.start()], match[0]


def ray_page_command(verb: str) -> dict[str, object]:
    """The values of a command on the page about Ray."""
    (command,) = re.findall(rf"interlinear ({verb} rnnsearch .*)\n", page("deploy-ray.md").replace("\\\n", " "))
    return options_of(shlex.split(command))


def test_a_job_on_a_ray_cluster_is_the_training_of_the_page():
    """In the shared folder, and recorded by the same server."""
    trained, submitted = ray_page_command("train"), ray_page_command("submit")
    for same in ("recipe", "data", "workers", "register"):
        assert submitted[same] == trained[same]
    (folder,) = re.findall(r"^    cd (\S+)$", page("deploy-ray.md"), re.M)
    (tracking,) = re.findall(r"MLFLOW_TRACKING_URI=(\S+)", page("deploy-ray.md"))
    assert submitted["folder"] == folder and submitted["tracking"] == tracking


# Another database.


def test_another_database_is_named_in_every_place():
    comment = (DEPLOY / "kubernetes" / "postgres.yaml").read_text().partition("apiVersion")[0]
    places = {
        os.path.relpath(path, DEPLOY / "kubernetes")
        for path in DEPLOY.rglob("*")
        if path.is_file() and path.suffix in (".yaml", ".ini") and "@postgres/" in path.read_text()
    }
    assert len(places) >= 4
    for place in {*places, "network-policies.yaml", "../postgres/keys.sh"}:
        assert place in comment, place


def test_the_script_of_the_keys_database_is_explained_where_it_says():
    script = (DEPLOY / "postgres" / "keys.sh").read_text()
    (name,) = re.findall(r"\(docs/(.*?)\)", script)
    (command,) = [block for block in blocks(page(name)) if "sh -e deploy/postgres/keys.sh" in block]
    for variable in {*re.findall(r"\$(\w+)", script), "PGHOST", "PGPASSWORD"}:
        assert f"{variable}=" in command
