"""An open page while the versions of the served models change."""

import re

import httpx
import pytest
from playwright.sync_api import expect

from service.settings import ServedModelConfig
from tests.service.conftest import ALIAS, until
from tests.service.playground.pages import DOG, DOG_EN, NEEDS_CHROMIUM, translated

pytestmark = NEEDS_CHROMIUM


def promote(registered, address: str, version: int) -> None:
    registered.promote(version)
    until(lambda: str(version) in [model["version"] for model in httpx.get(f"{address}/models").json()])


def test_a_page_goes_on_with_the_version_that_replaced_its_own(registered, serving, opened):
    with serving(registered.settings()) as address:
        page = opened(address)
        translated(page, DOG, DOG_EN)
        promote(registered, address, 2)  # writes two words
        translated(page, "Eine Frau sitzt.", re.compile(r"^A \w+$"))
        expect(page.locator("#problem")).to_be_hidden()
        expect(page.locator("#answered-by")).to_have_attribute("title", "mt@2")


@pytest.mark.slow
@pytest.mark.parametrize("chosen", ["#model", pytest.param("#compare", marks=pytest.mark.slow)])
def test_a_model_that_is_chosen_stays_chosen_in_its_next_version(registered, serving, opened, bundles, chosen):
    models = (ServedModelConfig(name="mt", uri=ALIAS), ServedModelConfig(name="de-en", uri=str(bundles.de_en)))
    with serving(registered.settings(models=models)) as address:
        page = opened(address)
        if chosen == "#compare":
            page.locator("#model").select_option(label="de-en")
        page.locator(chosen).select_option("mt@1")
        translated(page, DOG, DOG_EN)
        promote(registered, address, 2)
        page.locator("#text").fill("Eine Frau sitzt.")
        answer = page.locator("#translation" if chosen == "#model" else "#other")
        expect(answer).to_have_text(re.compile(r"^A \w+$"))
        expect(page.locator(chosen)).to_have_value("mt@2")
        expect(page.locator("#problem")).to_be_hidden()


@pytest.mark.slow
def test_a_document_goes_on_with_the_version_that_replaced_its_model(registered, serving, opened, bundles):
    models = (ServedModelConfig(name="mt", uri=ALIAS), ServedModelConfig(name="de-en", uri=str(bundles.de_en)))
    with serving(registered.settings(models=models)) as address:
        page = opened(address)
        page.get_by_role("tab", name="Document").click()
        page.locator("#model").select_option("mt@1")
        promote(registered, address, 2)
        page.locator("#document").set_input_files(
            {"name": "report.txt", "mimeType": "text/plain", "buffer": DOG.encode()}
        )
        page.get_by_role("button", name="Translate").click()
        expect(page.get_by_role("button", name="Download")).to_be_visible()
        expect(page.locator("#model")).to_have_value("mt@2")
