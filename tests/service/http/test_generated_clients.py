"""Clients that are generated from the OpenAPI document translate: openapi-python-client and openapi-typescript."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GENERATOR = "openapi-python-client==0.29.1"  # in an environment of its own: it needs an older typer than ours
NPM_PACKAGES = ("openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3")
DOG, DOG_EN = "Ein Hund läuft.", "A dog is running."

TYPESCRIPT = """
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const client = createClient<paths>({ baseUrl: process.argv[2] });
const body: components["schemas"]["TranslateRequest"] = { q: ["Ein Hund läuft."], source: "de", target: "en" };
const { data } = await client.POST("/translate", { body });
const refused = await client.POST("/translate", { body: { ...body, target: "zz" } });
const languages = await client.GET("/languages");
console.log(JSON.stringify({
  text: typeof data === "object" ? data.translatedText : data,  // text: of a stream of events
  error: refused.error?.error,
  languages: languages.data?.map(({ code }) => code),
}));
"""


def run(*command: str | Path, folder: Path, skip: bool = False) -> str:
    """The output of a command; `skip`: a failure skips the test, because it needs the network."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))  # the generator formats with ruff
    done = subprocess.run(
        command, check=False, cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True
    )
    if skip and done.returncode:
        pytest.skip(f"{command[0]} cannot install: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def python_client(address, tmp_path, monkeypatch):
    """The package that openapi-python-client generates without a warning."""
    run(sys.executable, "-m", "venv", "generator", folder=tmp_path)
    run(tmp_path / "generator/bin/pip", "install", "--quiet", GENERATOR, folder=tmp_path, skip=True)
    command = tmp_path / "generator/bin/openapi-python-client"
    options = ("--meta", "none", "--output-path", "generated_client", "--fail-on-warning")
    run(command, "generate", "--url", f"{address}/openapi.json", *options, folder=tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module
    for name in [name for name in sys.modules if name.startswith("generated_client")]:
        del sys.modules[name]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_python_client(address, python_client):
    models = python_client("generated_client.models")
    client = python_client("generated_client").Client(base_url=address)

    def call(route: str, body: object = None):
        module = python_client(f"generated_client.api.{route}")
        return module.sync(client=client, body=body) if body else module.sync(client=client)

    asked = {"source": "de", "target": "en"}
    for kind in (models.TranslateRequest, models.TranslateForm, models.TranslateMultipartForm):
        answer = call("translation.translate", kind(q=DOG, **asked))
        assert (answer.translated_text, answer.model.name) == (DOG_EN, "de-en")
    answer = call("translation.translate", models.TranslateRequest(q=[DOG, DOG], alternatives=1, explain=True, **asked))
    assert answer.translated_text == [DOG_EN, DOG_EN]
    assert [len(others) for others in answer.alternatives] == [1, 1]
    assert answer.explanations[0].source[0].text == "Ein"
    refused = call("translation.translate", models.TranslateRequest(q=DOG, source="de", target="zz"))
    assert isinstance(refused, models.ProblemDetails)
    assert refused.error == "zz is not supported"
    assert {language.code for language in call("languages.list_languages")} == {"de", "en"}
    assert call("languages.detect", models.DetectRequest(q="Wo ist der Hund?"))[0].language == "de"
    assert call("summarization.summarize", models.SummarizeRequest(text="A dog is running in the park.")).summaries
    edit = models.PostEditRequest(translation="Ein Hund laufen.", source="en", target="de")
    assert call("post_editing.post_edit", edit).operations[0].from_
    assert call("operations.list_models")[0].accepts.beam_size == 5
    assert "interlinear_requests_total" in call("operations.metrics")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not here")
def test_the_typescript_client(address, tmp_path):
    (tmp_path / "package.json").write_text(json.dumps({"type": "module", "private": True}))
    run("npm", "install", "--silent", *NPM_PACKAGES, folder=tmp_path, skip=True)
    (tmp_path / "client.ts").write_text(TYPESCRIPT)
    programs = tmp_path / "node_modules/.bin"
    run(programs / "openapi-typescript", f"{address}/openapi.json", "-o", "schema.ts", folder=tmp_path)
    options = ("--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck")
    (tmp_path / "node.d.ts").write_text("declare const process: { argv: string[] };\n")
    run(programs / "tsc", *options, "client.ts", "node.d.ts", folder=tmp_path)
    said = json.loads(run("node", "client.js", address, folder=tmp_path))
    assert said == {"text": [DOG_EN], "error": "zz is not supported", "languages": ["de", "en"]}
