"""The registry's password is never shown; its host, paths and errors are shown to operators only."""

import io
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from starlette.testclient import TestClient

from interlinear.cli.console import say
from interlinear.errors import RegistryError
from interlinear.registry.cache import ModelCache
from interlinear.registry.credentials import mask_credentials
from interlinear.registry.names import parse_model_name
from interlinear.registry.store import MlflowStore, StoredModel
from service.app import create_app
from service.auth.key_store import KeyStore
from service.auth.scopes import Scope
from service.logging import JsonFormatter, TextFormatter, configure
from service.problems import Problem, problem_response
from service.settings import ServedModelConfig, Settings
from tests.service.conftest import until

ALIAS = "models:/mt@champion"
PASSWORD = "s3cret"


@contextmanager
def broken_registry() -> Iterator[str]:
    """A server that answers /health, and 502 elsewhere; yields its address, as HOST:PORT."""

    class Broken(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/health" else 502)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Broken)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


@pytest.fixture
def remembered(bundles, tmp_path, monkeypatch) -> Iterator[Callable[..., Settings]]:
    """Settings of a service that starts from its cache because the registry answers 502."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with broken_registry() as host:
        tracking = f"http://alice:{PASSWORD}@{host}"
        cache = ModelCache(tmp_path / "cache")
        kept = StoredModel("mt", "1", bundles.de_en.as_uri(), bundles.de_en)
        cache.download_and_record(parse_model_name(ALIAS), kept, MlflowStore(tracking))

        def made(**changes: object) -> Settings:
            given = {"models": [ServedModelConfig(name="mt", uri=ALIAS)], "tracking": tracking, "threads": 1}
            return Settings(**(given | {"cache": tmp_path / "cache", "poll_seconds": 0.05} | changes))

        yield made


def test_the_registry_s_password_is_in_no_message(remembered, caplog, capsys):
    host = remembered().tracking.partition("@")[2]
    with TestClient(create_app(remembered())) as client:
        first = client.get("/models")
        until(lambda: any("502" in record.getMessage() for record in caplog.records))
        pages = [client.get(path).text for path in ("/models", "/metrics", "/openapi.json", "/health/ready")]
        assert first.json()[0]["status"] == "unchecked"
        told = str(client.app.state.service.model_manager.model_slots[0].sync.error)
    lines = [style.format(record) for record in caplog.records for style in (JsonFormatter(), TextFormatter())]
    assert any("502" in line for line in lines) and "502" in told
    with pytest.raises(RegistryError) as caught:
        MlflowStore(remembered().tracking).list_models()
    say(f"API request to http://alice:{PASSWORD}@{host} failed")
    for text in [*lines, *pages, capsys.readouterr().err]:
        assert PASSWORD not in text and "alice" not in text
    assert PASSWORD not in told + str(caught.value)
    assert host not in "".join(pages), "the registry's host is for those who run the service"


def test_models_shows_operators_the_error_and_others_only_the_status(remembered, tmp_path):
    keys = KeyStore(str(tmp_path / "keys.db"))
    key = {scope: keys.add(scope.value, scopes=[scope]) for scope in Scope}
    guarded = remembered(keys=str(tmp_path / "keys.db"), metrics_key=True, require_key=True)
    with TestClient(create_app(guarded)) as client:

        def asked(path: str, scope: Scope | None) -> tuple[int, str]:
            headers = {"Authorization": f"Bearer {key[scope]}"} if scope else {}
            answer = client.get(path, headers=headers)
            return answer.status_code, answer.text

        for scope in (None, Scope.TRANSLATE, Scope.METRICS):
            status, text = asked("/models", scope)
            (model,) = json.loads(text)
            assert (status, model["status"]) == (200, "unchecked")
            assert model["error"] == "The registry does not answer. The service's log says why."
        status, text = asked("/models", Scope.ADMIN)
        assert status == 200 and "502" in text and PASSWORD not in text
        assert [asked("/metrics", scope)[0] for scope in (None, *Scope)] == [401, 403, 200, 403]
        assert "is for translate, and this needs one with the scope metrics" in asked("/metrics", Scope.TRANSLATE)[1]
        work = {"q": "Ein Hund.", "source": "de", "target": "en"}
        answers = [client.post("/translate", json=work | {"api_key": key[scope]}).status_code for scope in Scope]
        assert answers == [200, 403, 403]
        assert client.get("/models", headers={"Authorization": "Bearer wrong"}).status_code == 401


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("to http://alice:s3cret@host:5000/api failed", "to http://***@host:5000/api failed"),
        ("postgresql+psycopg://u:p%40ss@h/db", "postgresql+psycopg://***@h/db"),
        ("https://ghp_token@host/x", "https://***@host/x"),
        ("http://u:p@ss@host/a@b", "http://***@host/a@b"),
        ("http://host/models:/mt@champion is away", "http://host/models:/mt@champion is away"),
        ("user=x password=hunter22 host=h", "user=x password=*** host=h"),
        ("GET /f?a=1&X-Amz-Signature=abcd&b=2", "GET /f?a=1&X-Amz-Signature=***&b=2"),
        ("{'Authorization': 'Bearer abc.def'}", "{'Authorization': 'Bearer ***'}"),
        ("[(b'Authorization', b'Basic YWxpY2U6czNjcmV0')]", "[(b'Authorization', b'Basic ***')]"),
        ('{"user": "alice", "password": "s3cret"}', '{"user": "alice", "password": "***"}'),
        (
            "a key is needed, in api_key or Authorization: Bearer",
            "a key is needed, in api_key or Authorization: Bearer",
        ),
        ("il_0123456789ab_" + "x" * 43, "il_***"),
    ],
)
def test_credentials_are_masked_anywhere_in_a_text(text, said):
    assert mask_credentials(text) == said


def test_values_from_the_environment_are_masked(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "hunter22")
    body = problem_response(Problem(503, "the server said: hunter22 is wrong"), "r").body
    assert b"hunter22" not in body and b"*** is wrong" in body
    record = logging.makeLogRecord({"msg": "tried %s", "args": ("hunter22",)})
    assert "hunter22" not in JsonFormatter().format(record) + TextFormatter().format(record)


def test_an_unwritable_log_line_is_not_printed_with_its_secrets(monkeypatch: pytest.MonkeyPatch):
    """Python's logging would print the record's exception unmasked to standard error."""
    root = logging.getLogger()
    handlers, level, printed, closed = root.handlers[:], root.level, io.StringIO(), io.StringIO()
    monkeypatch.setattr(logging, "raiseExceptions", True)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stderr", closed)
            configure("text", access=False)
        closed.close()
        monkeypatch.setattr(sys, "stderr", printed)
        try:
            raise RegistryError(f"http://alice:{PASSWORD}@host", "is away")
        except RegistryError:
            logging.getLogger("interlinear.service").exception("failed")
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logging.captureWarnings(False)
    assert PASSWORD not in printed.getvalue()
