"""Processes that read and write documents: limits of time, memory and text, and what they know of the service."""

import asyncio
import itertools
import os
import time
import tracemalloc
from pathlib import Path

import pytest

from interlinear.documents import AlignedText
from interlinear.documents.formats import ReadOptions
from interlinear.generation.terms import GlossaryEntry, Term, TermOptions
from interlinear.translation.sentences import Sentence
from service.files import document_processes
from service.files.document_processes import DocumentProcesses
from service.files.worker_protocol import DocumentRequest, write_aligned
from service.problems import Problem
from tests.interlinear.documents.packages import docx, run

HTML = "<p>Ein <b>Hund</b> da.</p>"


@pytest.fixture
def processes():
    processes = DocumentProcesses(1, 30, 500)
    yield processes
    processes.close()


def write(folder, content: bytes | str):
    path = folder / "upload"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def asked(name: str, terms: TermOptions | None = None, characters: int = 1000, sentences: int = 20) -> DocumentRequest:
    return DocumentRequest("sentences", name, characters, sentences, "de", "en", terms)


def line(*translation: object) -> bytes:
    return write_aligned(AlignedText(*translation))


def test_a_document_is_read_and_written(processes, tmp_path):
    path = write(tmp_path, HTML)
    assert asyncio.run(processes.beginning(path, "a.html", ReadOptions())) == "Ein Hund da."
    _, sentences = asyncio.run(processes.split(path, asked("a.html")))
    assert sentences == [Sentence("Ein Hund da.", explain=True, completes=1)]
    words = [(0, 3), (4, 8), (9, 12)]
    translation = line("Ist Hund da", words, [(0, 3), (4, 8), (9, 11)], [(0, 0), (1, 1), (2, 2)])
    with (tmp_path / "out").open("wb") as output:
        asyncio.run(processes.write(path, asked("a.html"), [translation], output))
    assert (tmp_path / "out").read_text() == "<p>Ist <b>Hund</b> da</p>"


def test_terms_are_found_in_the_whole_text(processes, tmp_path):
    """And contradictory ones are an error of their field."""
    path = write(tmp_path, "Da! Das ist Yahoo! Inc. in Ulm.")
    terms = TermOptions((GlossaryEntry("Yahoo! Inc", "Yahoo"),))
    _, sentences = asyncio.run(processes.split(path, asked("a.txt", terms)))
    assert [one for one in sentences if one.terms] == [
        Sentence("Das ist Yahoo! Inc. in Ulm.", (Term(8, 18, "Yahoo"),), completes=1)
    ]
    wrong = TermOptions((GlossaryEntry("Hund", "dog"),), ("Hund",))
    with pytest.raises(Problem, match="glossary cannot be used: 'Hund' has the target 'dog'") as refused:
        asyncio.run(processes.split(path, asked("a.txt", wrong)))
    assert refused.value.fields[0].field == "glossary"


@pytest.mark.parametrize(
    ("name", "content", "detail"),
    [
        ("a.txt", "da " * 400, "file has 1,199 characters of text, and at most 1,000 are translated; divide it"),
        ("a.html", "<p>a" * 21, "file has more than 20 sentences, the most that are translated; divide it"),
        ("a.txt", "Da! " * 21, "file has more than 20 sentences"),
        ("a.docx", docx("<w:p>").replace(b"PK", b"XX", 1), "file is not of this format"),
        ("a.docx", docx(f"<w:p>{run('<')}</w:p>"), "file in word/document.xml is not well-formed XML"),
    ],
)
def test_a_refusal_says_why(processes, tmp_path, name, content, detail):
    with pytest.raises(Problem, match=detail) as refused:
        asyncio.run(processes.split(write(tmp_path, content), asked(name)))
    assert refused.value.status == 400 and refused.value.fields[0].field == "file"


def test_time_is_limited(tmp_path):
    processes = DocumentProcesses(1, 0.01, 500)
    with pytest.raises(Problem, match=r"takes more than 0\.01 s to read"):
        asyncio.run(processes.split(write(tmp_path, HTML), asked("a.html")))
    processes.close()


def test_memory_is_limited(tmp_path):
    processes = DocumentProcesses(1, 60, 60)
    with pytest.raises(Problem, match="memory"):
        asyncio.run(processes.split(write(tmp_path, "<p>a</p>" * 400_000), asked("a.html", None, 10**9, 10**9)))
    processes.close()


LETTERS = "abcdefghijklmnopqrstuvwxyz"
LARGEST = {
    "different": "<p>" + "<p>".join(map("".join, itertools.islice(itertools.product(LETTERS, repeat=4), 99_000))),
    "edges": "<p>" + "<b>A</b>a! " * 40_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LARGEST)
def test_the_largest_documents_take_little_of_the_service(tmp_path, name):
    """Nor much time of the process, whose processor time is limited. Printed: megabytes, and seconds for the answer."""
    processes, path = DocumentProcesses(1, 3000, 1000), write(tmp_path, LARGEST[name])
    tracemalloc.start()
    began = time.monotonic()
    _, sentences = asyncio.run(processes.split(path, asked("a.html", None, 500_000, 100_000)))
    took, (_, most) = time.monotonic() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    processes.close()
    print(f"{name}: {len(sentences):,} sentences, {most / 1e6:.0f} MB, {took:.1f} s")
    assert len(sentences) == {"different": 99_000, "edges": 1}[name] and most < 100_000_000


@pytest.mark.slow
def test_more_paragraphs_are_refused_by_the_process(tmp_path):
    processes = DocumentProcesses(1, 3000, 1000)
    with pytest.raises(Problem, match="has more than 100,000 sentences"):
        asyncio.run(processes.split(write(tmp_path, "<p>a" * 480_000), asked("a.html", None, 500_000, 100_000)))
    processes.close()


def test_a_full_disk_is_no_mistake_of_the_document(processes, tmp_path):
    path = write(tmp_path, HTML)
    with Path("/dev/full").open("wb") as output, pytest.raises(OSError, match="No space left"):
        asyncio.run(processes.write(path, asked("a.html"), [line("Ist Hund da")], output))


def test_a_translation_is_not_far_larger_than_its_document(processes, tmp_path):
    path = write(tmp_path, HTML)
    with (tmp_path / "out").open("wb") as output, pytest.raises(Problem, match="has a translation that is far larger"):
        asyncio.run(processes.write(path, asked("a.html"), [line("a" * 1_100_000)], output))


def test_a_process_has_nothing_of_the_environment(monkeypatch):
    monkeypatch.setenv("PGPASSWORD", "secret")
    assert set(document_processes.environment()) == {"PYTHONPATH", "OMP_NUM_THREADS", "PYTHONUTF8"}


def test_a_mistake_is_logged_without_the_text(processes, tmp_path, caplog):
    """A translation too few, which no document has."""
    with (tmp_path / "out").open("wb") as output, pytest.raises(Problem) as failed:
        asyncio.run(processes.write(write(tmp_path, "<p>secret"), asked("a.html"), [], output))
    assert failed.value.status == 500
    assert "IndexError" in caplog.text and "secret" not in caplog.text


def test_cancelling_ends_the_process(processes, tmp_path, monkeypatch):
    """A process that would read for ever: its document is a pipe into which nobody writes."""
    path = tmp_path / "upload"
    os.mkfifo(path)

    async def cancel() -> None:
        reading = asyncio.create_task(processes.split(path, asked("a.txt")))
        await asyncio.sleep(0.5)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    began = time.monotonic()
    asyncio.run(cancel())
    processes._executor.shutdown(wait=True)
    assert time.monotonic() - began < 20, "and not the 30 seconds that it may take"
