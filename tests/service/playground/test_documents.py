"""The document tab of the playground."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.service.playground.pages import DOG, DOG_EN, NEEDS_CHROMIUM, serious_problems, translated

pytestmark = NEEDS_CHROMIUM

REPORT = "# Ein Hund\n\nIm Garten schläft eine **Katze**.\n"
LONG = "\n\n".join(f"Im Garten {i} schläft eine Katze {i}." for i in range(8000))


@pytest.fixture
def documents(page):
    page.get_by_role("tab", name="Document").click()
    return page


def choose(page: Page, name: str, text: str) -> None:
    file = {"name": name, "mimeType": "application/octet-stream", "buffer": text.encode()}
    page.locator("#document").set_input_files(file)


def downloaded(page: Page) -> tuple[str, str]:
    """Name and text of the translated file."""
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    return download.value.suggested_filename, Path(download.value.path()).read_text(encoding="utf-8")


def test_a_document_goes_through(documents):
    page = documents
    choose(page, "report.md", REPORT)
    expect(page.locator("#file-name")).to_contain_text("report.md")
    expect(page.get_by_role("button", name="Translate")).to_be_focused()
    assert serious_problems(page) == []
    page.keyboard.press("Enter")
    save = page.get_by_role("button", name="Download")
    expect(save).to_be_focused()
    expect(page.locator("#file-state")).to_have_text("Translated.")
    expect(page.locator("#announcement")).to_have_text("report.md is translated.")
    assert serious_problems(page) == []
    name, text = downloaded(page)
    assert name == "report.en.md"
    assert "A **cat** is sleeping in the garden." in text or "cat" in text
    choose(page, "tool.exe", "x")
    expect(page.locator("#file-problem")).to_contain_text("A file with the suffix .exe cannot be translated here.")
    assert downloaded(page) == (name, text), "a wrong file takes nothing away"
    page.locator("#source").select_option("de")
    expect(page.get_by_role("button", name="Translate")).to_be_visible()


@pytest.mark.slow
def test_a_finished_translation_stays_while_the_page_is_used_for_other_things(documents):
    page = documents
    choose(page, "report.md", REPORT)
    translate, save = (page.get_by_role("button", name=name, exact=True) for name in ("Translate", "Download"))
    translate.click()
    page.get_by_role("tab", name="Text").click()
    translated(page, DOG, DOG_EN)
    page.locator("#clear").click()
    page.get_by_role("tab", name="Document").click()
    expect(save).to_be_visible()
    expect(translate).to_be_hidden()
    page.locator("#source").select_option("de")
    expect(translate).to_be_visible()
    assert serious_problems(page) == []
    assert downloaded(page)[0] == "report.en.md"
    page.locator("#source").select_option("auto")
    expect(translate).to_be_hidden()
    page.locator("#glossary-button").click()
    page.locator("#entries input").first.fill("Katze")
    page.locator("#entries input").nth(1).fill("tiger")
    translate.click()
    expect(save).to_be_focused()
    assert "tiger" in downloaded(page)[1]


@pytest.mark.slow
def test_a_document_is_dropped_and_its_glossary_is_used(documents):
    page = documents
    page.locator("#glossary-button").click()
    page.get_by_label("Term in German").first.fill("Katze")
    page.get_by_label("Its translation in English").first.fill("tiger")
    page.evaluate(
        """text => {
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([text], "report.txt"));
            document.getElementById("drop").dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true }));
        }""",
        "Eine Katze schläft.",
    )
    page.get_by_role("button", name="Translate").click()
    expect(page.get_by_role("button", name="Download")).to_be_visible()
    assert "tiger" in downloaded(page)[1]


@pytest.mark.slow
def test_progress_is_shown_and_a_job_is_cancelled(documents):
    page = documents
    choose(page, "long.txt", LONG)
    page.get_by_role("button", name="Translate").click()
    expect(page.locator("#file-state")).to_have_text(re.compile(r"^Translated [\d,]+ of 8,000 texts$"))
    assert page.get_by_role("progressbar").evaluate("bar => bar.max") == 8000
    with page.expect_response(lambda answer: answer.request.method == "DELETE") as answer:
        page.get_by_role("button", name="Cancel").click()
    assert answer.value.status == 204
    expect(page.get_by_role("progressbar")).to_be_hidden()
    expect(page.get_by_role("button", name="Translate")).to_be_visible()


@pytest.mark.slow
def test_a_document_that_was_cancelled_during_its_upload_says_nothing_about_the_next_one(documents):
    page = documents
    held = []
    page.route("**/translate_file", lambda route: route.continue_() if held else held.append(route))
    choose(page, "report.md", REPORT)
    with page.expect_request("**/translate_file"):
        page.get_by_role("button", name="Translate").click()
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/translate_file")):
        page.get_by_role("button", name="Cancel").click()
    choose(page, "long.txt", LONG)
    page.get_by_role("button", name="Translate").click()
    held[0].abort()
    expect(page.locator("#file-state")).to_have_text(re.compile("^Translated [0-9]"))
    expect(page.locator("#file-problem")).to_be_hidden()
    page.get_by_role("button", name="Cancel").click()


@pytest.mark.slow
def test_a_cancelled_document_is_not_asked_for_again(documents):
    page = documents
    busy = {"status": 503, "headers": {"Retry-After": "1"}, "json": {"detail": "the service is not ready"}}
    asked = []
    page.on("request", lambda request: asked.append(request.method) if "/files/" in request.url else None)
    choose(page, "long.txt", LONG)
    page.route(
        "**/files/*", lambda route: route.continue_() if route.request.method == "DELETE" else route.fulfill(**busy)
    )
    with page.expect_response("**/files/*"):
        page.get_by_role("button", name="Translate").click()
    with page.expect_response(lambda answer: answer.request.method == "DELETE"):
        page.get_by_role("button", name="Cancel").click()
    page.wait_for_timeout(1500)
    assert asked[-1] == "DELETE"
    expect(page.locator("#file-problem")).to_be_hidden()


@pytest.mark.slow
def test_what_cannot_be_translated_is_said_in_words(documents):
    page = documents
    choose(page, "tool.exe", "x")
    expect(page.locator("#file-problem")).to_contain_text("A file with the suffix .exe cannot be translated here.")
    choose(page, "report.docx", "no zip archive")
    expect(page.locator("#file-problem")).to_be_hidden()
    page.get_by_role("button", name="Translate").click()
    expect(page.locator("#file-problem")).to_contain_text("it is no zip archive")
    choose(page, "report.md", REPORT)
    page.get_by_role("button", name="Translate").click()
    expect(page.get_by_role("button", name="Download")).to_be_visible()
    expect(page.locator("#file-problem")).to_be_hidden()


@pytest.mark.slow
def test_a_file_that_has_changed_since_it_was_chosen_must_be_chosen_again(documents, tmp_path):
    page, file = documents, tmp_path / "report.md"
    file.write_text(REPORT, encoding="utf-8")
    page.locator("#document").set_input_files(file)
    file.write_text(2 * REPORT, encoding="utf-8")
    page.get_by_role("button", name="Translate").click()
    expect(page.locator("#file-problem")).to_have_text("The file cannot be read any more. Choose it again.")
    page.locator("#document").set_input_files(file)
    page.get_by_role("button", name="Translate").click()
    expect(page.get_by_role("button", name="Download")).to_be_visible()


@pytest.mark.slow
def test_a_key_is_sent_with_the_document(guarded, opened):
    address, key = guarded
    page = opened(address)
    page.get_by_role("tab", name="Document").click()
    choose(page, "report.md", REPORT)
    page.get_by_role("button", name="Translate").click()
    expect(page.locator("#problem")).to_contain_text("key")
    page.get_by_label("API key").fill(key)
    page.get_by_label("API key").press("Enter")
    page.get_by_role("button", name="Translate").click()
    expect(page.get_by_role("button", name="Download")).to_be_visible()
    assert downloaded(page)[0] == "report.en.md"


def test_a_service_without_documents_has_no_such_tab(opened, shared):
    expect(opened(shared("de-en", "headlines", files=False)).get_by_role("tab")).to_have_text(["Text", "Summary"])
