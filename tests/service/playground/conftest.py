"""The playground at the width of a desktop and of a phone."""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from service.auth.key_store import KeyStore

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.service.playground.pages import Open


@pytest.fixture(params=[pytest.param(1280, marks=pytest.mark.slow), 390])  # a phone has less room
def opened(browser: "Browser", request: pytest.FixtureRequest) -> Iterator["Open"]:
    """Opens a service's page at one of the two widths. At the end of a test nothing may overflow the page, and no
    script may have failed."""
    from playwright.sync_api import expect

    phone = request.param == 390
    options: dict[str, Any] = {"has_touch": True, "is_mobile": True} if phone else {}
    context = browser.new_context(viewport={"width": request.param, "height": 844 if phone else 900}, **options)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    pages, failures = [], []

    def open_at(address: str) -> "Page":
        pages.append(page := context.new_page())
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.goto(address)
        expect(page.locator("#status")).to_have_text(re.compile("^ready"))
        return page

    yield open_at
    for page in pages:
        assert page.evaluate("document.documentElement.scrollWidth") <= request.param, "nothing sticks out"
    context.close()
    assert failures == []


@pytest.fixture
def page(opened: "Open", address: str) -> "Page":
    return opened(address)


@pytest.fixture(scope="session")
def guarded(shared: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The address of a service that requires keys, and a key."""
    store = str(tmp_path_factory.mktemp("keys") / "keys.db")
    key = KeyStore(store).add("reader")
    return shared(keys=store, require_key=True), key
