"""What tests do on the playground's page."""

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from tests.service.conftest import CHROMIUM

NEEDS_CHROMIUM = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine (apt-get install chromium)"),
]

THEMES = ["light", pytest.param("dark", marks=pytest.mark.slow)]
DOG, DOG_EN = "Ein Hund läuft.", "A dog is running."

Open = Callable[[str], Page]


def on_phone(page: Page) -> bool:
    return page.viewport_size == {"width": 390, "height": 844}


def point(page: Page, place: Locator) -> None:
    """By touch on a phone, otherwise with the mouse."""
    place.tap() if on_phone(page) else place.hover()


def translated(page: Page, text: str, expected: str) -> None:
    page.locator("#text").fill(text)
    expect(page.locator("#translation")).to_have_text(expected)


def serious_problems(page: Page) -> list[tuple[str, str]]:
    """What axe finds on the page: rule and element."""
    found = Axe().run(page).response["violations"]
    return [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]


def overflow(page: Page) -> int:
    """Pixels by which the page is wider than the window."""
    return page.evaluate("document.documentElement.scrollWidth - innerWidth")
