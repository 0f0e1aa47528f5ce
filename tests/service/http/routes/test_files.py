"""Documents through the service: translated as LibreTranslate's clients ask for it, as jobs, and what is refused."""

import io
import json
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.request import Request, urlopen

import httpx
import pytest
from starlette.testclient import TestClient

from interlinear.components import DOCUMENT_FORMATS
from interlinear.documents.files import parse_file
from service.app import create_app
from service.auth.key_store import KeyStore
from service.settings import Settings
from tests.interlinear.documents.formats import document
from tests.interlinear.documents.packages import archive, docx, parts_of, run
from tests.service.conftest import until

DOG, DOG_EN = "Ein Hund läuft.", "A dog is running."
LANGUAGES = {"source": "de", "target": "en"}
ASYNC = {"Prefer": "respond-async"}
MANY = "\n".join(f"Ein Hund läuft {a}{b}." for a in "abcdefghijklmnopqrst" for b in "abcdefghijklmnopqrst").encode()
FORMATS = [
    suffix if suffix in {".txt", ".docx", ".html", ".srt"} else pytest.param(suffix, marks=pytest.mark.slow)
    for suffix in DOCUMENT_FORMATS
]


def send(
    client: httpx.Client, name: str, content: bytes, headers: dict[str, str] | None = None, **fields: str
) -> httpx.Response:
    """Upload a document."""
    return client.post("/translate_file", files={"file": (name, content)}, data=LANGUAGES | fields, headers=headers)


def download(client: httpx.Client, answer: httpx.Response) -> httpx.Response:
    """The translated document that an answer is about."""
    assert answer.status_code == 200, answer.text
    return client.get(answer.json()["translatedFileUrl"])


def wait_until(client: httpx.Client, location: str, *statuses: str) -> dict:
    """The job, once it has one of the statuses."""
    for _ in range(600):
        job = client.get(location).json()
        if job["status"] in statuses:
            return job
        time.sleep(0.05)
    raise AssertionError(job)


def as_text(content: bytes) -> str:
    """The bytes of a document, those of all parts of an archive."""
    if not content.startswith(b"PK"):
        return content.decode()
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        return "\n".join(file.read(name).decode() for name in file.namelist())


@pytest.fixture
def with_files(one_model: Settings, tmp_path: Path) -> Settings:
    """Settings of a service of one model whose documents are in a folder of the test's."""
    return one_model.model_copy(update={"files_folder": tmp_path / "documents"})


LIMITS = {"file_bytes": 100_000, "file_characters": 20_000, "file_jobs": 1, "files_per_caller": 2}


@pytest.fixture
def limited(with_files, serving) -> Iterator[httpx.Client]:
    """A service with small limits."""
    service = serving(with_files.model_copy(update=LIMITS))
    with service as address, httpx.Client(base_url=address, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def refusing(shared, tmp_path_factory) -> Iterator[httpx.Client]:
    """The same for tests whose documents are refused; nothing is kept of them."""
    folder = tmp_path_factory.mktemp("documents")
    with httpx.Client(base_url=shared(files_folder=folder, **LIMITS), timeout=60) as client:
        yield client
        assert names_in(folder) == ["lock"]


def names_in(documents: Path) -> list[str]:
    """What is in the folder of a service in this folder."""
    (folder,) = documents.glob("interlinear-files-*")
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format(client, suffix):
    downloaded = download(client, send(client, f"Brief{suffix}", document(suffix, DOG)))
    assert DOG_EN in as_text(downloaded.content)


def test_the_request_of_a_page_of_libretranslate(address):
    """As its page sends it, and its clients: a form with an empty key, without other headers."""
    boundary = "----WebKitFormBoundary7MA4YWxkTrZu0gW"
    fields = {"source": "auto", "target": "en", "api_key": ""}
    parts = [f'Content-Disposition: form-data; name="{name}"\r\n\r\n{value}' for name, value in fields.items()]
    file = 'Content-Disposition: form-data; name="file"; filename="brief.txt"\r\nContent-Type: text/plain\r\n\r\n'
    body = "".join(f"--{boundary}\r\n{part}\r\n" for part in [file + DOG, *parts]) + f"--{boundary}--\r\n"
    media = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    with urlopen(Request(f"{address}/translate_file", body.encode(), media), timeout=60) as answer:
        said = json.load(answer)
    assert set(said) == {"translatedFileUrl"} and said["translatedFileUrl"].startswith(f"{address}/download_file/")
    with urlopen(said["translatedFileUrl"], timeout=60) as answer:
        assert answer.read().decode() == DOG_EN


def test_the_settings_of_a_page_name_the_formats(client):
    settings = client.get("/frontend/settings").json()
    assert settings["filesTranslation"] is True
    assert {".docx", ".odt", ".txt", ".tmx", ".ods"} <= set(settings["supportedFilesFormat"]) == set(DOCUMENT_FORMATS)


def test_a_download_is_an_attachment_with_the_name_and_the_language(client):
    downloaded = download(client, send(client, "C:\\Briefe\\Brief an Örs.txt", DOG.encode()))
    disposition = downloaded.headers["content-disposition"]
    assert disposition == "attachment; filename*=utf-8''Brief%20an%20%C3%96rs.en.txt"
    assert downloaded.headers["x-content-type-options"] == "nosniff"
    assert downloaded.headers["content-type"] == "application/octet-stream"


def test_markup_is_translated_as_by_translate(client):
    html = "<p>Im Park <b>schläft</b> ein Kind.</p>\n<ul><li>Ein <i>Hund läuft</i>. Eine Katze sitzt.</ul>"
    answer = client.post("/translate", json=LANGUAGES | {"q": html, "format": "html"}).json()
    assert download(client, send(client, "a.html", html.encode())).text == answer["translatedText"]


def test_terms(client):
    fields = {"glossary": "Hund\thound", "do_not_translate": "Park"}
    translated = download(client, send(client, "a.txt", "Ein Hund läuft im Park.".encode(), **fields)).text
    assert translated.count("hound") == 1 and translated.count("Park") == 1


def test_what_is_in_the_target_language_stays_as_it_is(client):
    english = "Where is the old man with the hat?"
    whole, within = f"{english}\nOK then.", f"{DOG}\n" * 9 + english
    for content, expected, warning in (
        (whole, whole, "The document is in English already, and is returned as it is."),
        (within, within.replace(DOG, DOG_EN), "A sentence is in English already, and left as it is."),
    ):
        job = translated(client, content, source="auto")
        assert (job["warnings"], job["untranslated"]) == ([warning], 0)
        assert client.get(job["translatedFileUrl"]).text == expected
    assert translated(client, f"{DOG}\n{english}")["warnings"] == [], "the caller says that it is German"
    page = f"<p>Ein <b>Hund</b> läuft.</p><p>Where is the <b>old</b> man &amp; the hat?</p><p>{DOG}</p>"
    job = translated(client, page, "a.html", source="auto")
    assert "<p>Where is the <b>old</b> man &amp; the hat?</p>" in client.get(job["translatedFileUrl"]).text


def translated(client: httpx.Client, content: str, name: str = "a.txt", **fields: str) -> dict:
    """The job of a document, once it is translated."""
    answer = send(client, name, content.encode(), ASYNC, **fields)
    return wait_until(client, answer.headers["location"], "done", "failed")


def test_a_sentence_longer_than_the_model_reads_is_translated_in_parts(client):
    """And one whose term is longer than an output may be stays as it is, and is counted."""
    long, kept = ", ".join(["ein Hund läuft im Park"] * 60), "ñ" * 200
    content = f"{long}.\n{kept} läuft.\nKatze\n".encode()
    terms = {"do_not_translate": kept, "glossary": f"Katze\t{'µ' * 200}"}
    answer = send(client, "a.txt", content, ASYNC, **terms)
    job = wait_until(client, answer.headers["location"], "done", "failed")
    assert (job["status"], job["untranslated"], job["segments"]) == ("done", 1, {"done": 3, "total": 3})
    first, second, third = client.get(job["translatedFileUrl"]).text.splitlines()
    assert first.casefold().count("dog") >= 3 and second.startswith(f"{kept} ") and third == "Katze"


def test_a_job(client):
    answer = send(
        client, "a.txt", f"{DOG}\n\n{DOG}\nEine Frau sitzt.".encode(), ASYNC | {"Prefer": "wait=1, Respond-Async"}
    )
    assert (answer.status_code, answer.headers["preference-applied"]) == (202, "respond-async")
    job, location = answer.json(), answer.headers["location"]
    assert location.endswith(f"/files/{job['id']}") and len(job["id"]) >= 32
    assert (job["name"], job["status"] in ("queued", "running"), "translatedFileUrl" in job) == ("a.txt", True, False)
    job = wait_until(client, location, "done")
    assert job["segments"] == {"done": 3, "total": 3} and job["expires"] > "2026"
    assert client.get(job["translatedFileUrl"]).text == f"{DOG_EN}\n\n{DOG_EN}\nA woman is sitting."
    assert client.delete(location).status_code == 204
    for gone in (location, job["translatedFileUrl"]):
        assert client.get(gone).status_code == 404
    assert client.delete(location).status_code == 404


def test_a_job_that_fails_says_why(client):
    answer = send(client, "a.docx", b"Ein Hund", ASYNC)
    job = wait_until(client, answer.headers["location"], "failed", "done")
    assert job["error"]["detail"] == "file is not of this format: it is no zip archive; check its suffix"
    assert (job["error"]["status"], job["error"]["request_id"]) == (400, answer.headers["x-request-id"])


def test_a_job_is_cancelled(limited):
    answers = [send(limited, "a.txt", MANY, ASYNC) for _ in range(2)]
    job = wait_until(limited, answers[0].headers["location"], "running")
    assert limited.get(answers[1].headers["location"]).json()["status"] == "queued"
    refused = send(limited, "a.txt", DOG.encode())
    assert refused.status_code == 429 and "2 documents of yours" in refused.json()["detail"]
    assert int(refused.headers["retry-after"]) > 0
    for answer in answers:
        assert limited.delete(answer.headers["location"]).status_code == 204
    assert job["segments"]["done"] < 400
    assert download(limited, send(limited, "a.txt", DOG.encode())).text == DOG_EN, "the next one has its place"
    metrics = limited.get("/metrics").text
    assert 'interlinear_ended_file_jobs_total{status="cancelled"} 2.0' in metrics
    assert 'interlinear_rejected_total{reason="files"} 1.0' in metrics


def test_texts_are_translated_while_a_document_is(limited):
    location = send(limited, "a.txt", MANY, ASYNC).headers["location"]
    job = wait_until(limited, location, "running")
    while not job["segments"]["done"]:
        job = limited.get(location).json()
    answer = limited.post("/translate", json=LANGUAGES | {"q": "Eine Katze sitzt."})
    assert answer.json()["translatedText"] == "A cat is sitting."
    assert limited.get(location).json()["status"] == "running"


@pytest.mark.slow
def test_an_ended_document_makes_room_for_the_next_of_its_caller(limited, with_files):
    answers = [send(limited, f"{i}.txt", DOG.encode()) for i in range(3)]
    urls = [answer.json()["translatedFileUrl"] for answer in answers]
    assert [limited.get(url).status_code for url in urls] == [404, 200, 200]
    (folder,) = with_files.files_folder.glob("interlinear-files-*")
    assert folder.stat().st_mode & 0o777 == 0o700
    kept = [path for path in folder.iterdir() if path.name != "lock"]
    assert len(kept) == 2 and {path.stat().st_mode & 0o777 for path in kept} == {0o600}, "the uploads are deleted"


def test_a_document_expires(with_files, serving):
    brief = with_files.model_copy(update={"file_seconds": 0.5})
    with serving(brief) as address, httpx.Client(base_url=address, timeout=60) as client:
        answer = send(client, "a.txt", DOG.encode(), ASYNC)
        for _ in range(600):
            gone = client.get(answer.headers["location"])
            if gone.status_code != 200:
                break
            time.sleep(0.05)
        assert gone.status_code == 404 and "deleted after its time" in gone.json()["detail"]
        assert names_in(with_files.files_folder) == ["lock"]
        assert "interlinear_file_bytes 0.0" in client.get("/metrics").text
    assert not list(with_files.files_folder.iterdir()), "the folder is gone with the service"


def test_a_client_that_goes_away_ends_the_translation(limited, with_files):
    with pytest.raises(httpx.ReadTimeout):
        limited.post("/translate_file", files={"file": ("a.txt", MANY)}, data=LANGUAGES, timeout=0.5)
    until(lambda: names_in(with_files.files_folder) == ["lock"])


def test_a_document_that_a_client_waits_for_is_finished_while_the_service_is_stopped(with_files):
    with TestClient(create_app(with_files)) as client, ThreadPoolExecutor(1) as caller:
        service = client.app.state.service
        sending = caller.submit(send, client, "a.txt", b"\n".join(MANY.splitlines()[:60]))
        label = {"model": "de-en"}
        until(lambda: service.metrics.registry.get_sample_value("interlinear_texts_total", label), 100)
        service.engine.stop(60)
        assert download(client, sending.result()).text.count("\n") == 59
        assert send(client, "a.txt", DOG.encode()).status_code == 503


def test_urls_are_of_the_public_address_whatever_host_was_called(shared):
    called = {"Host": "elsewhere.example"}
    with httpx.Client(base_url=shared(public_url="https://translate.example.org/base/"), timeout=60) as client:
        url = send(client, "a.txt", DOG.encode(), called).json()["translatedFileUrl"]
        assert url.startswith("https://translate.example.org/base/download_file/")
        location = send(client, "a.txt", DOG.encode(), called | ASYNC).headers["location"]
        assert location.startswith("https://translate.example.org/base/files/")


def test_a_deadline(client):
    assert send(client, "a.txt", MANY, {"X-Request-Timeout": "0.2"}).status_code == 504


ENTITY = '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><a>&x;</a>'
PARAGRAPH = f"<w:p>{run(DOG)}</w:p>"
ENCRYPTED = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504) + "EncryptedPackage".encode("utf-16-le")


def bomb() -> bytes:
    return archive(parts_of(docx(PARAGRAPH)) | {"word/document.xml": " " * 30_000_000})


@pytest.mark.parametrize(
    ("name", "content", "detail"),
    [
        ("a.rar", b"Rar!", "unknown format: .rar"),
        ("a", b"Ein Hund", "no suffix that says its format"),
        ("a.docm", docx(PARAGRAPH), "may have macros"),
        ("a.txt", docx(PARAGRAPH), "is not a text file, but a zip archive"),
        ("a.odt", docx(PARAGRAPH), "is not of this format"),
        ("a.docx", ENCRYPTED, "is encrypted with a password"),
        ("a.docx", bomb, "has a part of 30 MB"),
        ("a.docx", archive(parts_of(docx("")) | {"word/document.xml": ENTITY}), "declares entities"),
        ("a.docx", archive(parts_of(docx(PARAGRAPH)) | {"../../etc/cron.d/x": "x"}), "unsafe name, '../../etc/cron"),
        ("a.docx", archive(parts_of(docx(PARAGRAPH)) | {"word/vbaProject.bin": "x"}), "has macros"),
        ("a.txt", b"", "is empty"),
        ("a.txt", b" \n ", "is empty"),
        ("a.txt", b"12 %\n", "has no text to translate"),
        ("a.txt", (DOG + "\n").encode() * 1500, "has 22,500 characters of text, and at most 20,000"),
        ("../../etc/passwd.txt", b"\xff", "is not text in utf-8"),
    ],
)  # fmt: skip
def test_what_is_refused(refusing, name, content, detail):
    refused = send(refusing, name, content() if callable(content) else content)
    assert refused.status_code == 400
    problem = refused.json()
    assert detail in problem["detail"] and problem["errors"][0]["field"] == "file"


@pytest.mark.parametrize(
    ("fields", "field", "error"),
    [
        ({"target": "fr"}, "target", "fr is not supported"),
        ({"source": "fr"}, "source", "fr is not supported"),
        ({"source": "auto", "target": "zz"}, "target", None),
        ({"source": ""}, "source", "Invalid request: missing source parameter"),
        ({"model": "other"}, "model", None),
        ({"pages": "1"}, "pages", None),
        ({"glossary": "Hund"}, "glossary", None),
        ({"glossary": "Hund\thound\nhund\tdog"}, "glossary", None),
        ({"glossary_id": "none"}, None, None),
    ],
)
def test_wrong_fields_are_named(refusing, fields, field, error):
    refused = send(refusing, "a.txt", DOG.encode(), **fields)
    assert refused.status_code == (400 if field else 403)
    problem = refused.json()
    assert [each["field"] for each in problem["errors"]] == [field] * bool(field)
    assert error is None or problem["error"] == error


def test_a_wrong_deadline_is_refused(refusing):
    assert send(refusing, "a.txt", DOG.encode(), {"X-Request-Timeout": "soon"}).status_code == 400


def test_a_form_without_document(refusing):
    assert refusing.post("/translate_file", files={"source": (None, "de")}).json()["error"] == (
        "Invalid request: missing file parameter"
    )
    assert refusing.post("/translate_file", json=LANGUAGES).status_code == 415
    text = refusing.post("/translate_file", files={"file": (None, "da")}, data=LANGUAGES)
    assert text.status_code == 400 and text.json()["errors"] == [
        {"field": "file", "problem": "must be a file: a part of the form with a `filename`"}
    ]
    two = {"files": [("file", ("a.txt", b"da")), ("file", ("b.txt", b"da"))], "data": LANGUAGES}
    assert refusing.post("/translate_file", **two).status_code == 400


def test_a_document_that_is_too_large_is_not_read(refusing, tmp_path):
    path: Path = tmp_path / "a.txt"
    with path.open("wb") as file:
        file.truncate(200_000_000)
    with path.open("rb") as file:
        refused = refusing.post("/translate_file", files={"file": file}, data=LANGUAGES)
    assert refused.status_code == 413
    assert refused.json()["detail"] == "file must not be larger than 100,000 bytes"


def test_there_is_room_for_so_many_bytes(shared):
    with httpx.Client(base_url=shared(files_total_bytes=1000), timeout=60) as client:
        assert send(client, "a.txt", b"Ein Hund. " * 101).status_code == 429
        assert download(client, send(client, "a.txt", DOG.encode())).text == DOG_EN


def test_documents_can_be_turned_off(shared):
    with httpx.Client(base_url=shared("de-en", "headlines", files=False)) as client:
        refused = send(client, "a.txt", DOG.encode())
        assert (refused.status_code, refused.json()["error"]) == (403, "Files translation are disabled on this server.")
        settings = client.get("/frontend/settings").json()
        assert (settings["filesTranslation"], settings["supportedFilesFormat"]) == (False, [])


def test_documents_are_of_a_key(one_model, serving, tmp_path):
    store = KeyStore(tmp_path / "keys.db")
    app, other, third = store.add("app", quota=3), store.add("other"), store.add("third", quota=3)
    keys = one_model.model_copy(update={"keys": str(tmp_path / "keys.db"), "require_key": True})
    own, others = ({"Authorization": f"Bearer {key}"} for key in (app, other))
    with serving(keys) as address, httpx.Client(base_url=address, timeout=60) as client:
        assert send(client, "a.txt", DOG.encode()).status_code == 401
        assert send(client, "a.txt", DOG.encode(), api_key="il_no").status_code == 401
        assert download(client, send(client, "a.txt", DOG.encode(), api_key=other)).text == DOG_EN
        location = send(client, "a.txt", DOG.encode(), own | ASYNC).headers["location"]
        for headers, status in (({}, 401), (others, 404), (own, 200)):
            assert client.get(location, headers=headers).status_code == status
            assert client.delete(location, headers=headers).status_code == {200: 204}.get(status, status)
        dear = send(
            client, "a.txt", ("Ein Hund läuft im Park.\n" * 2 + "Eine Frau sitzt am Fluss. " * 900).encode(), own
        )
        assert dear.status_code == 200, "equal sentences are searched, and counted, once"
        many = " ".join(f"Ein Hund läuft {a}{b}." for a in "abcdefghij" for b in "abcdefghij").encode()
        refused = send(client, "a.txt", many, own)
        assert refused.status_code == 429 and "3 texts of this day" in refused.json()["detail"]
        paragraphs = send(client, "a.html", b"<p>Ein Hund" * 400, api_key=third)
        assert paragraphs.status_code == 429, "equal paragraphs count too, a hundred as a text"


def test_every_suffix_is_one_that_can_be_parsed():
    for suffix in DOCUMENT_FORMATS:
        assert [segment.text for segment in parse_file(document(suffix, DOG), f"a{suffix}").segments] == [DOG]
