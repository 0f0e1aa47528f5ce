"""The tabs of the playground, by keyboard, link and sight."""

import re

import pytest
from playwright.sync_api import expect

from tests.service.conftest import changed, served
from tests.service.playground.pages import DOG, DOG_EN, NEEDS_CHROMIUM, THEMES, overflow, serious_problems

pytestmark = NEEDS_CHROMIUM

TABS = ["Text", "Document", "Image", "Edit", "Summary"]


def test_arrow_keys_go_from_tab_to_tab_and_only_the_selected_one_is_a_tab_stop(page):
    tabs = page.get_by_role("tab")
    expect(tabs).to_have_text(TABS)
    tabs.first.focus()
    for name, key in zip([*TABS[1:], "Text", "Summary", "Text"], [*["ArrowRight"] * 5, "End", "Home"], strict=True):
        page.keyboard.press(key)
        selected = page.get_by_role("tab", name=name, exact=True)
        expect(selected).to_be_focused()
        expect(selected).to_have_attribute("aria-selected", "true")
        expect(page.locator("[role=tab][aria-selected=true], [role=tab][tabindex='0']")).to_have_count(1)
        expect(page.get_by_role("tabpanel", name=name)).to_be_visible()
        assert overflow(page) <= 0


@pytest.mark.slow
def test_no_answer_is_wider_than_the_page(page):
    for name, field, text in (
        ("Text", "#text", "Im Garten schläft eine Katze."),
        ("Image", "#text", "The chair."),
        ("Edit", "#mt", "Ein Hund laufen im Park."),
        ("Summary", "#text", "A dog is running in the park."),
    ):
        page.get_by_role("tab", name=name, exact=True).click()
        page.locator(field).fill(text)
        expect(page.locator("#explanation")).to_be_visible()
        assert overflow(page) <= 0, name


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_no_serious_problem_with_the_panels_open(page, theme):
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    page.locator("#glossary-button").click()
    page.locator("#entries input").first.fill("Katze")
    assert serious_problems(page) == []
    page.locator("#history-button").click()
    expect(page.locator("#glossary")).to_be_hidden()
    assert serious_problems(page) == []
    page.get_by_role("tab", name="Document").click()
    assert serious_problems(page) == []


def test_a_link_opens_its_tab(page, address):
    page.goto(f"{address}/#task=document&source=de&target=en")
    expect(page.get_by_role("tab", name="Document")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#source")).to_have_value("de")
    page.get_by_role("tab", name="Edit").click()
    page.locator("#mt").fill("Ein Hund laufen.")
    expect(page.locator("#translation")).not_to_be_empty()
    page.locator("#link").click()
    expect(page.locator("#link")).to_contain_text("Copied")
    link = page.evaluate("navigator.clipboard.readText()")
    expect(page.locator("#link")).to_have_text("Link")
    page.goto("about:blank")
    page.goto(link)
    expect(page.get_by_role("tab", name="Edit")).to_have_attribute("aria-selected", "true")
    expect(page.locator("#mt")).to_have_value("Ein Hund laufen.")


def test_a_tab_has_its_languages_again_after_another_one(page):
    source, target = page.locator("#source"), page.locator("#target")
    target.select_option("en")
    page.get_by_role("tab", name="Edit").click()
    expect(source).to_have_value("en")
    page.get_by_role("tab", name="Text").click()
    expect(source).to_have_value("auto")
    expect(target).to_have_value("en")
    source.select_option("de")
    page.get_by_role("tab", name="Summary").click()
    page.get_by_role("tab", name="Document").click()
    expect(source).to_have_value("de")
    expect(target).to_have_value("en")


@pytest.mark.slow
def test_a_text_is_translated_by_keyboard_alone(page):
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.type(DOG)
    expect(page.locator("#translation")).to_have_text(DOG_EN)
    expect(page.locator("#announcement")).to_have_text(DOG_EN)
    page.locator("#text").focus()
    reached = []
    for _ in range(12):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            """() => {
                const node = document.activeElement, { outlineStyle, outlineWidth } = getComputedStyle(node);
                return [node.id || node.classList[0], outlineStyle === "none" ? "" : outlineWidth];
            }"""
        )
        reached.append(focused)
    names = [name for name, _ in reached]
    assert [name for name in names if name in ("clear", "target", "answer-word", "link", "copy")] == [
        "clear", "target", "answer-word", "link", "copy",
    ]  # fmt: skip
    assert all(re.fullmatch(r"\d+px", outline) for _, outline in reached), "the focus is visible everywhere"


def test_text_of_a_right_to_left_language_runs_so(page):
    page.locator("#source").select_option("de")
    page.locator("#text").fill("שלום עולם")
    expect(page.locator("#translation")).not_to_be_empty()
    for place in ("#text", "#marks"):
        assert page.locator(place).evaluate("node => node.matches(':dir(rtl)')")


@pytest.mark.slow
def test_words_of_a_right_to_left_language_run_so(bundles, opened, serving, tmp_path):
    directions = {"ar-EG": "rtl", "fa-AF": "rtl", "ckb": "rtl", "sd": "rtl", "dv": "rtl", "he": "rtl", "fr": "ltr"}
    folders = {
        code: changed(bundles.de_en, tmp_path / code, languages={"source": "de", "target": code}) for code in directions
    }
    with serving(served(folders)) as address:
        page = opened(address)
        page.locator("#source").select_option("de")
        page.locator("#text").fill(DOG)
        for code, direction in directions.items():
            page.locator("#target").select_option(code)
            expect(page.locator("#answered-by")).to_have_text(code)
            expect(page.locator(".row.target")).to_have_attribute("dir", direction)
            expect(page.locator(".row.source")).to_have_attribute("dir", "ltr")
