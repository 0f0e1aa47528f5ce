"""The history of the playground: in the browser only."""

import re

import pytest
from playwright.sync_api import expect

from tests.service.playground.pages import DOG, DOG_EN, NEEDS_CHROMIUM, translated

pytestmark = NEEDS_CHROMIUM

WOMAN, WOMAN_EN = "Eine Frau sitzt.", "A woman is sitting."


def test_texts_are_kept_and_shown_again_with_their_tab(page):
    translated(page, DOG, DOG_EN)
    entries = page.locator("#past button")
    page.locator("#history-button").click()
    expect(page.locator("#no-past")).to_have_text("Nothing yet.")
    expect(entries).to_have_count(1)
    page.get_by_role("tab", name="Edit").click()
    page.locator("#mt").fill("Ein Hund laufen im Park.")
    expect(page.locator("#translation")).to_have_text("Ein Hund läuft im Park.")
    expect(entries).to_have_count(2)
    expect(entries.first).to_contain_text("Ein Hund laufen im Park.", use_inner_text=True)
    page.reload()
    page.locator("#history-button").click()
    expect(entries.nth(1)).to_contain_text(DOG_EN)
    entries.nth(1).click()
    expect(page.get_by_role("tab", name="Text")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#text")).to_have_value(DOG)
    expect(page.locator("#translation")).to_have_text(DOG_EN)


@pytest.mark.slow
def test_a_text_that_grows_is_one_entry(page):
    translated(page, DOG, DOG_EN)
    expect(page.locator("#past li")).to_have_count(1)
    translated(page, f"{DOG} {WOMAN}", f"{DOG_EN} {WOMAN_EN}")
    expect(page.locator("#past .from")).to_have_text([f"{DOG} {WOMAN}"])


@pytest.mark.slow
def test_it_is_cleared_and_turned_off(page):
    translated(page, DOG, DOG_EN)
    page.locator("#history-button").click()
    expect(page.locator("#past li")).to_have_count(1)
    page.get_by_role("button", name="Clear the history").click()
    expect(page.locator("#past li")).to_have_count(0)
    assert page.evaluate("localStorage.getItem('history')") is None
    page.get_by_label(re.compile("Keep the last 50 texts")).uncheck()
    expect(page.locator("#no-past")).to_have_text("No history is kept.")
    translated(page, WOMAN, WOMAN_EN)
    page.reload()
    expect(page.locator("#keep-history")).not_to_be_checked()
    assert page.evaluate("localStorage.getItem('history')") is None


@pytest.mark.slow
def test_it_has_the_last_fifty_texts(page):
    old = [{"task": "", "q": f"Text {i}.", "source": "de", "target": "en", "text": "", "time": 0} for i in range(50)]
    page.evaluate("old => localStorage.setItem('history', JSON.stringify(old))", old)
    translated(page, DOG, DOG_EN)
    expect(page.locator("#past li")).to_have_count(50)
    expect(page.locator("#past .from").first).to_have_text(DOG)
    expect(page.locator("#past .from").last).to_have_text("Text 48.")
