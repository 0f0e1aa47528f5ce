"""The field of the API key, and a browser that stores nothing."""

import pytest
from playwright.sync_api import expect

from tests.service.playground.pages import DOG, DOG_EN, NEEDS_CHROMIUM, translated

pytestmark = NEEDS_CHROMIUM


@pytest.mark.parametrize(
    "character", ["\u200b", *(pytest.param(one, marks=pytest.mark.slow) for one in "\u2013\u0430")]
)
def test_a_key_with_a_character_that_no_key_has_is_refused_in_words(guarded, opened, character):
    address, key = guarded
    page = opened(address)
    field, problem = page.get_by_label("API key"), page.locator("#problem")
    field.fill(f"{key[:6]}{character}{key[6:]}")
    field.press("Enter")
    expect(problem).to_contain_text("The API key has a character that no key has")
    expect(field).to_have_attribute("aria-invalid", "true")
    page.locator("#text").fill(DOG)
    page.get_by_role("tab", name="Document").click()
    page.locator("#document").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"Hund"})
    page.get_by_role("button", name="Translate").click()
    expect(problem).to_contain_text("key")
    page.get_by_role("tab", name="Text").click()
    expect(problem).to_contain_text("The API key has a character that no key has")
    field.fill(key)
    field.press("Enter")
    translated(page, DOG, DOG_EN)
    expect(problem).to_be_hidden()


BLOCKED = """for (const name of ["localStorage", "sessionStorage"])
    Object.defineProperty(window, name, { get() { throw new DOMException("not allowed", "SecurityError"); } });"""


def test_the_page_works_where_the_browser_stores_nothing(guarded, opened):
    address, key = guarded
    page = opened(address)
    page.add_init_script(BLOCKED)
    page.reload()
    page.get_by_label("API key").fill(key)
    page.get_by_label("API key").press("Enter")
    translated(page, DOG, DOG_EN)
    page.locator("#theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
