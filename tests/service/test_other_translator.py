"""A translator that is no model of ours stands behind all routes."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from interlinear.errors import BundleError
from interlinear.generation.translator import TranslatorReference, open_translator
from service.app import create_app
from tests.service.balls import picture
from tests.service.conftest import served
from tests.service.echo import write_echo
from tests.service.http import test_contract
from tests.service.http.test_streaming import EVENTS, read

PAIR = {"source": "de", "target": "en"}


@pytest.fixture(scope="module")
def echoes(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("echoes")
    return {
        "de-en": write_echo(folder / "de-en", "translation", source="de", target="en"),
        "en-fr": write_echo(folder / "en-fr", "translation", source="en", target="fr"),
        "headlines": write_echo(folder / "headlines", "summarization", source="en", target="en"),
        "pictures": write_echo(folder / "pictures", "multimodal", source="en", target="de"),
        "edits": write_echo(folder / "edits", "post-edit", source="en", mt="de", target="de"),
    }


@pytest.fixture(scope="module")
def address(echoes, serving) -> Iterator[str]:
    with serving(served(echoes)) as address:
        yield address


@pytest.fixture(scope="module")
def client(address) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=address, timeout=60) as client:
        yield client


def posted(client: httpx.Client, route: str, **body: object) -> dict:
    answer = client.post(route, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_texts_are_translated_with_alternatives_and_explanations(client):
    answer = posted(client, "/translate", q=["eins zwei drei", "3.14"], alternatives=1, explain=True, **PAIR)
    assert answer["translatedText"] == ["drei zwei eins", "3.14"], "without letters it is its own translation"
    assert answer["alternatives"] == [["eins zwei drei"], []]
    assert answer["explanations"][0]["alignment"] == [[0, 2], [1, 1], [2, 0]]


def test_tags_follow_the_alignment(client):
    answer = posted(client, "/translate", q="<p>eins <b>zwei</b> drei vier</p>", format="html", **PAIR)
    assert answer["translatedText"] == "<p>vier drei <b>zwei</b> eins</p>"


def test_a_form_is_answered_as_by_libretranslate(client):
    answer = client.post("/translate", data={"q": "eins zwei", "source": "auto", "target": "en", "format": "text"})
    assert answer.json()["translatedText"] == "zwei eins" and answer.json()["detectedLanguage"]["language"] == "de"
    assert {each["code"]: each["targets"] for each in client.get("/languages").json()}["de"] == ["de", "en", "fr"]


def test_two_echoes_through_a_pivot_language(client):
    answer = posted(client, "/translate", q="eins zwei drei", source="de", target="fr", explain=True)
    assert answer["translatedText"] == "eins zwei drei"
    assert answer["explanations"][0]["alignment"] == [[0, 0], [1, 1], [2, 2]]


def test_prefixes_are_streamed_word_by_word(client):
    *prefixes, (name, last) = read(client.post("/translate", json={"q": "eins zwei drei", **PAIR}, headers=EVENTS).text)
    assert (name, last["translatedText"]) == ("answer", "drei zwei eins")
    said = [prefix["text"] for _, prefix in prefixes]
    assert said == sorted(said, key=len) and all("drei zwei eins".startswith(text) for text in said)


def test_the_other_tasks(client):
    assert posted(client, "/summarize", text="one two three")["summaries"] == "three two one"
    edited = posted(client, "/post-edit", translation="eins zwei", source="en", target="de", source_text="one two")
    assert edited["editedText"] == "zwei eins" and edited["operations"]
    shown = io.BytesIO()
    picture("rote").save(shown, "PNG")
    for fields, said in (({"q": "one two"}, "two one"), ({}, "picture")):
        parts = {name: (None, value) for name, value in ({"source": "en", "target": "de"} | fields).items()}
        answer = client.post("/translate/multimodal", files={"image": ("a.png", shown.getvalue()), **parts})
        assert (answer.status_code, answer.json().get("translatedText")) == (200, said), answer.text


def test_documents(client):
    page = b"<html><body><p>eins <i>zwei</i> drei</p></body></html>"
    answer = client.post("/translate_file", files={"file": ("a.html", page)}, data=PAIR)
    assert answer.status_code == 200, answer.text
    found = client.get(answer.json()["translatedFileUrl"])
    assert b"drei <i>zwei</i> eins" in found.content


def test_what_an_echo_does_not_take_is_refused(client):
    refused = client.post("/translate", json={"q": "eins", "target_prefix": "one", **PAIR})
    assert refused.status_code == 400 and "an echo takes none" in refused.json()["detail"]
    long = client.post("/summarize", json={"text": "word " * 100})
    assert long.status_code == 400 and "too long" in long.json()["detail"]


def test_operators_see_what_it_is(client):
    first, *others = client.get("/models").json()
    assert len(others) == 4
    assert first["languages"] == PAIR and first["examples"] == [{"source": "one two three"}]
    assert first["accepts"]["explain"] == ["echo"] and first["version"].startswith("sha-")
    assert client.get("/health/ready").status_code == client.get("/health/live").status_code == 200
    assert 'interlinear_texts_total{model="de-en"}' in client.get("/metrics").text
    assert posted(client, "/detect", q="Ein Hund läuft im Park.")[0]["language"] == "de"


def test_one_without_explanations(serving, tmp_path):
    """Tags then enclose what is of the whole sentence only."""
    folders = {
        "de-en": write_echo(tmp_path / "de-en", "translation", False, source="de", target="en"),
        "en-fr": write_echo(tmp_path / "en-fr", "translation", False, source="en", target="fr"),
    }
    with serving(served(folders)) as address, httpx.Client(base_url=address, timeout=60) as client:
        assert client.get("/models").json()[0]["accepts"]["explain"] == []
        for q, target in (("Eins zwei. Drei vier.", "en"), ("Eins zwei.", "fr")):
            answer = posted(client, "/translate", q=q, source="de", target=target, explain=True)
            assert answer["explanations"] == [{"source": [], "target": [], "matrices": {}, "alignment": []}]
        page = "<p>Eins <b>zwei</b>.</p>"
        marked = posted(client, "/translate", q=page, format="html", **PAIR)["translatedText"]
        assert marked.startswith("<p>") and "zwei. Eins" in re.sub("<[^>]*>", "", marked)


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.timeout(600)
def test_hundreds_of_requests_conform_to_openapi(address, tmp_path):
    assert test_contract.run(address, tmp_path, "--max-examples", "1", "--seed", "1") > 300


@pytest.mark.timeout(300)
def test_worker_processes_find_it_by_its_entry_point(echoes, serving, tmp_path, monkeypatch):
    """As an installed package, it has a folder of metadata."""
    (tmp_path / "echo-1.dist-info").mkdir()
    (tmp_path / "echo-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: echo\nVersion: 1\n")
    entry = "[interlinear.components]\necho = tests.service.echo\n"
    (tmp_path / "echo-1.dist-info/entry_points.txt").write_text(entry)
    monkeypatch.syspath_prepend(tmp_path)
    with serving(served({"de-en": echoes["de-en"]}, device="cpu,cpu", warm_up_texts=1)) as address:
        answer = httpx.post(f"{address}/translate", json={"q": ["eins zwei", "drei vier"], **PAIR}, timeout=60)
        assert answer.json()["translatedText"] == ["zwei eins", "vier drei"]
        assert httpx.get(f"{address}/models").json()[0]["engines"] == ["cpu.1", "cpu.2"]


def test_a_kind_that_nobody_registered_is_refused(tmp_path):
    (tmp_path / "model.json").write_text(json.dumps({"translator": "other"}))
    with pytest.raises(BundleError, match=r"model\.json: there is no translator 'other': there are bundle, echo"):
        create_app(served({"mt": tmp_path}))


def test_a_folder_that_is_written_again_is_refused(tmp_path):
    folder = write_echo(tmp_path / "echo", "translation", source="de", target="en")
    reference = open_translator(TranslatorReference(folder)).reference
    assert open_translator(reference).reference == reference
    (folder / "model.json").write_text((folder / "model.json").read_text().replace("de", "fr"))
    with pytest.raises(BundleError, match="other weights"):
        open_translator(reference)
