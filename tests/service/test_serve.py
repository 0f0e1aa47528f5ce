"""`interlinear serve` as a process, as started by people and orchestrators."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from interlinear.cli import run as interlinear
from interlinear.cli.serving.serve_settings import champion_models, load_settings
from interlinear.registry.store import LoggedBundle
from service.app import create_app
from service.settings import ServedModelConfig
from tests.service.conftest import sentences
from tests.service.engine.test_engine import value as counted


@contextmanager
def process(*arguments: str, folder: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "interlinear", "serve", "--port", "0", *arguments]
    child = subprocess.Popen(command, cwd=folder, env=os.environ | environment, stderr=subprocess.PIPE, text=True)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def address(child: subprocess.Popen[str]) -> str:
    """The address that the process prints when it listens."""
    said = []
    for line in child.stderr:
        said.append(line)
        if match := re.search(r"playground (http://[^/]+)/", line):
            return match[1]
    raise AssertionError("".join(said))


def ask(url: str, **request: object) -> dict:
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(request).encode(), headers)) as answer:
        return json.load(answer)


def test_sigterm_finishes_accepted_requests_and_ends_with_0(bundles, tmp_path):
    with process("--model", f"mt={bundles.de_en}", folder=tmp_path, INTERLINEAR_SERVE_SLOTS="1") as child:
        url, answers = address(child), []
        texts = {"q": [german for german, _ in sentences()[:100]], "source": "de", "target": "en"}
        asking = threading.Thread(target=lambda: answers.append(ask(f"{url}/translate", **texts)))
        asking.start()
        while (
            'interlinear_searching_texts{engine="cpu",model="mt"} 1.0'
            not in urllib.request.urlopen(f"{url}/metrics").read().decode()
        ):
            assert asking.is_alive()
        child.send_signal(signal.SIGTERM)
        assert child.wait(30) == 0
        asking.join(5)
        assert len(answers[0]["translatedText"]) == 100
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(f"{url}/health/live")


@pytest.mark.slow
def test_sigterm_during_long_preparation_ends_within_the_grace_period_and_answers_all(bundles, tmp_path):
    """The texts need detection, splitting and encoding for much longer than the grace period."""
    models = ["--model", f"mt={bundles.de_en}", "--model", f"back={bundles.en_de}"]
    with process(*models, folder=tmp_path, INTERLINEAR_SERVE_GRACE_SECONDS="1") as child:
        url, answers = address(child), []
        texts = [f"{i} " + "Hunde laufen, und Katzen schlafen, " * 139 for i in range(100)]

        begun = threading.Barrier(16, timeout=60)

        def send(number: int) -> None:
            body = json.dumps({"q": [f"{number} {text}" for text in texts], "source": "auto", "target": "en"}).encode()
            host, port = url.removeprefix("http://").split(":")
            with socket.create_connection((host, int(port)), timeout=60) as caller:
                head = "POST /translate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
                caller.sendall(f"{head}Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n".encode())
                read = caller.makefile("rb")
                assert read.readline().startswith(b"HTTP/1.1 100 ") and read.readline() == b"\r\n"
                begun.wait()  # the service has begun to read every request, and has to answer each one
                caller.sendall(body)
                answers.append(read.read())

        asking = [threading.Thread(target=send, args=[number]) for number in range(15)]
        for one in asking:
            one.start()
        begun.wait()
        while not counted(url, "interlinear_preparing_pieces"):
            pass
        child.send_signal(signal.SIGTERM)
        for one in asking:
            one.join(60)
        assert child.wait(60) == 0
    assert len(answers) == 15
    # 400: one had too many sentences; 429: too much was queued for one address already.
    assert {int(answer.split()[1]) for answer in answers} <= {400, 429, 503}
    assert all(json.loads(answer.partition(b"\r\n\r\n")[2])["detail"] for answer in answers)


def test_all_registered_champions_are_served_without_a_name(registered):
    client, version = registered.store.client, registered.store.client.get_model_version("mt", "3")
    registered.store.register(LoggedBundle(version.source.removeprefix("models:/"), version.run_id, ""), "back")
    try:
        models = champion_models(registered.tracking)
        assert [model.uri for model in models] == ["models:/back@champion", "models:/mt@champion"]
    finally:
        client.delete_registered_model("back")
    with TestClient(create_app(registered.settings(models=models[1:]))) as client:
        (model,) = client.get("/models").json()
        assert (model["name"], model["version"], model["aliases"]) == ("mt", "1", ["champion"])
        request = {"q": "Ein Hund läuft.", "source": "de", "target": "en", "model": "mt@champion"}
        answer = client.post("/translate", json=request).json()
        assert answer["translatedText"] == "A dog is running."
        assert answer["model"] == {"name": "mt", "version": "1"}


def test_models_and_settings_are_read_from_a_file(bundles, tmp_path, monkeypatch):
    file = tmp_path / "service.yaml"
    file.write_text(
        f"models:\n  - {{name: mt, uri: '{bundles.de_en}', slots: 2, beam: 5}}\n"
        f"  - {{name: head, uri: '{bundles.headlines}'}}\nbeam: 6\nsentences: 3\nthreads: 1\n"
    )
    monkeypatch.setenv("INTERLINEAR_SERVE_SENTENCES", "2")
    monkeypatch.setenv("INTERLINEAR_SERVE_TEXTS", "7")
    settings = load_settings(file, {"poll_seconds": 4.0})
    assert (settings.sentences, settings.texts, settings.poll_seconds) == (3, 7, 4.0), "option, file, environment"
    with TestClient(create_app(settings)) as client:
        first, second = client.get("/models").json()
        assert (first["name"], first["accepts"]["beam_size"]) == ("mt", 5)
        assert (second["name"], second["accepts"]["beam_size"]) == ("head", 6)
        request = {"q": "Ein Hund läuft.", "source": "de", "target": "en", "beam_size": 6}
        assert client.post("/translate", json=request).json()["errors"][0]["field"] == "beam_size"


def test_models_that_cannot_be_served_are_reported(bundles, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments, code, sentence in (
            ((f"--model=mt={bundles.de_en}", "--port", port), 1, f"127.0.0.1:{port}: the port is in use"),
            ((), 2, "no model is given"),
            (("--model=mt=nowhere",), 2, "there is no such folder"),
            (("--model=mt=",), 2, "a name or a model is missing"),
            ((f"--model=a@b={bundles.de_en}",), 2, "cannot be the name of a served model"),
            ((f"--model=mt={bundles.de_en}", f"--model=mt={bundles.de_en}"), 2, "is served already"),
            ((f"--model=mt={bundles.de_en}", "--device", "abacus"), 2, "cannot be used"),
            ((f"--model=mt={bundles.de_en}", "--host", "no.such.host.invalid"), 1, "cannot listen there"),
        ):
            assert interlinear(["serve", "--port", "0", *arguments]) == code, arguments
            said = capsys.readouterr().err
            *before, last = said.splitlines()
            assert sentence in last
            assert len(before) < 2 and all(line.startswith("interlinear: loading ") for line in before), said


def test_list_options_override_the_file(tmp_path, monkeypatch):
    file = tmp_path / "service.yaml"
    file.write_text("models: [{uri: a, slots: 3}, {uri: b}]\norigins: [https://a.example]\n")
    monkeypatch.setenv("INTERLINEAR_SERVE_TRUSTED_PROXIES", '["10.0.0.2"]')
    settings = load_settings(file, {"models": (), "origins": [], "trusted_proxies": None})
    assert [(model.uri, model.slots) for model in settings.models] == [("a", 3), ("b", None)]
    assert (settings.origins, settings.trusted_proxies) == (("https://a.example",), ("10.0.0.2",))
    given = {
        "models": (ServedModelConfig(uri="c"),),
        "origins": ["https://b.example"],
        "trusted_proxies": ["10.0.0.3"],
    }
    settings = load_settings(file, given)
    assert [model.uri for model in settings.models] == ["c"]
    assert (settings.origins, settings.trusted_proxies) == (("https://b.example",), ("10.0.0.3",))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("models: [{name: mt, url: x}]", "--config {file}: models.0.uri: field required"),
        ("beam: wide", "--config {file}: beam: input should be a valid integer"),
        ("origins: [example.org]", "--config {file}: origins: must be like https://example.org"),
        ("bogus: 1", "--config {file}: bogus: there is no such setting"),
        ("1: 1", "--config {file}: 1: there is no such setting"),
        ("models: [{uri: A, beam: 9}]", "--config {file}: A: a beam of 9 is wider than the service's own, 5"),
        ("- models", "--config {file}: holds no settings"),
        ("models: [", "--config {file}: cannot be read"),
        ("\0", "--config {file}: cannot be read"),
    ],
)
def test_an_invalid_file_is_reported(content, sentence, tmp_path, capsys):
    file = tmp_path / "service.yaml"
    file.write_text(content)
    assert interlinear(["serve", "--port", "0", "--config", str(file)]) == 2
    said = capsys.readouterr().err
    assert sentence.format(file=file) in said and said.count("\n") == 1, said


def test_an_invalid_environment_variable_is_reported(monkeypatch, capsys):
    for name, value, sentence in (
        ("RATE", "many", "rate: input should be a valid number"),
        ("ORIGINS", "https://example.org", "lists are written as json"),
    ):
        monkeypatch.setenv(f"INTERLINEAR_SERVE_{name}", value)
        assert interlinear(["serve", "--port", "0", "--model", "mt=nowhere"]) == 2
        said = capsys.readouterr().err
        assert sentence in said.lower() and said.count("\n") == 1, said
        monkeypatch.delenv(f"INTERLINEAR_SERVE_{name}")
