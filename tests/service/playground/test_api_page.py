"""The page about the API: commands and fields as the service's OpenAPI document has them."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.service.playground.pages import NEEDS_CHROMIUM, serious_problems

pytestmark = NEEDS_CHROMIUM


@pytest.fixture
def documented(opened, address):
    page = opened(address)
    page.goto(f"{address}/docs")
    return page


def operation(page: Page, method: str, path: str) -> Locator:
    """The part about one method of a path."""
    summary = page.locator("summary", has=page.locator("code", has_text=re.compile(f"^{re.escape(path)}$")))
    part = page.locator("details", has=summary.filter(has=page.locator("b", has_text=re.compile(f"^{method}$"))))
    part.evaluate("node => { node.open = true; }")
    return part


COMMANDS = {
    ("GET", "/models"): "curl {address}/models",
    ("DELETE", "/files/{file_id}"): "curl -X DELETE {address}/files/{{file_id}}",
    ("POST", "/detect"): "curl {address}/detect -H 'Content-Type: application/json' -d '{{",
    ("POST", "/translate_file"): "curl {address}/translate_file -F source=de -F target=en -F file=@report.docx",
}


def test_commands_have_the_method_and_the_body_of_the_operation(documented, address):
    for (method, path), command in COMMANDS.items():
        text = operation(documented, method, path).locator(".request pre").text_content()
        assert text.startswith(command.format(address=address))
        assert "{}" not in text


def test_the_fields_of_forms_and_of_every_response_are_shown(documented):
    file = operation(documented, "POST", "/translate_file")
    expect(file.locator("h3")).to_have_text(
        ["Request", "Headers", "Response (200)", "Response (202)", re.compile("^Errors")]
    )
    for field in ("file", "do_not_translate", "translatedFileUrl", "segments", "Prefer"):
        expect(file.locator("td:first-child code", has_text=re.compile(f"^{field}$")).first).to_be_visible()
    made = operation(documented, "POST", "/glossaries")
    expect(made.locator("h3", has_text="Response")).to_have_text(["Response"])
    expect(made.locator("td code", has_text=re.compile("^glossary_id$"))).to_be_visible()
    # Parameters of paths are not among the headers.
    expect(operation(documented, "GET", "/files/{file_id}").locator("h3")).to_have_text(
        ["Response", re.compile("^Errors")]
    )


def test_a_request_is_changed_sent_and_answered(documented, address):
    translate = operation(documented, "POST", "/translate")
    translate.get_by_label("Body").fill('{"q": "Ein Hund läuft.", "source": "de", "target": "en"}')
    expect(translate.locator(".request pre")).to_contain_text(
        '-d \'{"q":"Ein Hund läuft.","source":"de","target":"en"}\''
    )
    translate.get_by_role("button", name="Send").click()
    expect(translate.get_by_role("status")).to_have_text(re.compile(r"^200 OK · \d+ ms$"))
    expect(translate.get_by_label("Answer")).to_contain_text('"translatedText": "A dog is running."')
    assert serious_problems(documented) == []
    file = operation(documented, "GET", "/files/{file_id}")
    file.get_by_text("Try it").click()
    file.get_by_label("file_id").fill("no/file")
    expect(file.locator(".request pre")).to_have_text(f"curl {address}/files/no%2Ffile")
    file.get_by_role("button", name="Send").click()
    expect(file.get_by_role("status")).to_have_text(re.compile("^404 Not Found"))
    expect(file.get_by_label("Answer")).to_contain_text('"status": 404')
