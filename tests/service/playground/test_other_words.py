"""A click on a word of the translation offers others; the rest of the sentence is written anew."""

import re

import httpx
import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.service.conftest import changed, served
from tests.service.playground.pages import NEEDS_CHROMIUM, serious_problems, translated

pytestmark = NEEDS_CHROMIUM

CAT, CAT_EN = "Im Garten schläft eine Katze.", "A cat is sleeping in the garden."
SLEEPS, SLEEPS_EN = "Im Garten schläft.", "A dog is sleeping in the garden."  # it does not say who, so others may be

LABELS = "words => words.map((word) => word.ariaLabel)"


def word(page: Page, text: str) -> Locator:
    return page.locator("#translation .answer-word", has_text=re.compile(f"^{text}$"))


def offered(page: Page) -> Locator:
    return page.locator("#word-menu [role=option]")


def selected(page: Page) -> Locator:
    return page.locator("#word-menu [role=option][aria-selected=true]")


def test_the_words_offered_are_those_of_the_search_and_one_rewrites_the_rest(page, address):
    translated(page, SLEEPS, SLEEPS_EN)
    word(page, "dog").click()
    offers = offered(page)
    expect(offers.first).to_have_text("dog is sleeping in the garden.")
    request = {"q": SLEEPS, "source": "de", "target": "en", "target_prefix": "A", "alternatives": 5}
    request["min_alternative_expansion_prob"] = 0.01
    found = httpx.post(f"{address}/translate", json=request).json()
    texts = [found["translatedText"], *found["alternatives"]]
    expect(offers).to_have_text([text.removeprefix("A ") for text in texts])
    assert serious_problems(page) == []
    other = offers.nth(1).locator("b").text_content()
    offers.nth(1).click()
    expect(page.locator("#word-menu")).to_be_hidden()
    rest = httpx.post(
        f"{address}/translate", json={"q": SLEEPS, "source": "de", "target": "en", "target_prefix": f"A {other}"}
    ).json()["translatedText"]
    expect(page.locator("#translation")).to_have_text(rest)
    expect(page.locator(".row.target .word")).to_have_text(re.findall(r"\w+|\.", rest))
    expect(word(page, other)).to_be_focused()
    expect(word(page, other)).not_to_have_class(re.compile("doubtful"))
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("#translation")).to_have_text(SLEEPS_EN)
    expect(page.locator("#rewritten")).to_be_hidden()
    translated(page, CAT, CAT_EN)
    word(page, "cat").click()
    expect(page.locator("#word-menu-status")).to_have_text("The model finds no other word probable here.")
    expect(offers.filter(visible=True)).to_have_count(0)


@pytest.mark.slow
def test_by_keyboard_alone(page):
    translated(page, SLEEPS, SLEEPS_EN)
    word(page, "A").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    menu = page.get_by_role("listbox", name="Other words")
    expect(menu).to_be_focused()
    expect(selected(page)).to_contain_text("dog")
    page.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    expect(word(page, "dog")).to_be_focused()
    expect(page.locator("#word-weights")).to_contain_text("dog (")
    page.keyboard.press("Enter")
    expect(menu).to_be_focused()
    page.keyboard.press("ArrowDown")
    chosen = selected(page).locator("b").text_content()
    assert chosen != "dog"
    page.keyboard.press("Enter")
    expect(page.locator("#translation")).to_have_text(re.compile(f"^A {chosen} "))
    expect(word(page, chosen)).to_be_focused()


@pytest.mark.slow
def test_one_sentence_of_several_is_rewritten_and_the_others_stay(page):
    translated(
        page, f"Ein Mann spielt. {SLEEPS} Eine Frau sitzt.", f"A man is playing. {SLEEPS_EN} A woman is sitting."
    )
    word(page, "dog").click()
    chosen = offered(page).nth(1)
    text = chosen.text_content()
    chosen.click()
    expect(page.locator("#translation")).to_have_text(
        re.compile(f"^A man is playing. A {text.split()[0]} .* A woman is sitting.$")
    )
    expect(page.locator("#of-sentences")).to_have_text("sentence 2 of 3")
    page.locator(".sentence", has_text="Eine Frau sitzt.").click()
    for row, words in (("source", ["Eine", "Frau", "sitzt", "."]), ("target", ["A", "woman", "is", "sitting", "."])):
        labels = [label.partition(":")[0] for label in page.locator(f".row.{row} .word").evaluate_all(LABELS)]
        assert [label.split(" (")[0] for label in labels] == words
    expect(page.locator("#heat tbody tr")).to_have_count(5)


@pytest.mark.slow
def test_a_new_text_closes_the_menu(page):
    translated(page, SLEEPS, SLEEPS_EN)
    word(page, "dog").click()
    expect(page.get_by_role("listbox")).to_be_visible()
    translated(page, "Ein Hund läuft.", "A dog is running.")
    expect(page.locator("#word-menu")).to_be_hidden()


@pytest.mark.slow
def test_the_answer_to_an_earlier_text_cannot_be_undone(page):
    translated(page, SLEEPS, SLEEPS_EN)
    word(page, "dog").click()
    offered(page).nth(1).click()
    undo = page.get_by_role("button", name="Undo")
    expect(undo).to_be_visible()
    page.locator("#text").fill("Hund " * 2000)
    expect(page.locator("#stale")).to_be_visible()
    assert undo.evaluate("node => node.closest('[inert]') !== null")


def hold_rewriting(page: Page) -> list[Route]:
    """The requests for rewritten sentences, from now on; they are not answered before a test continues them."""
    held = []

    def hold(route: Route) -> None:
        request = route.request.post_data_json
        if "target_prefix" in request and request["explain"]:
            held.append(route)
        else:
            route.continue_()

    page.route("**/translate", hold)
    return held


def choose_another(page: Page, text: str) -> None:
    word(page, text).click()
    with page.expect_request("**/translate"):
        offered(page).nth(1).click()


@pytest.mark.slow
def test_an_alternative_replaces_the_sentence_that_is_being_rewritten(page):
    translated(page, SLEEPS, SLEEPS_EN)
    held = hold_rewriting(page)
    choose_another(page, "dog")
    alternative = page.locator("#alternatives button").first
    text = alternative.get_attribute("title")
    alternative.click()
    expect(page.locator("#translation")).to_have_text(text)
    for route in held:
        route.continue_()
    page.wait_for_timeout(500)
    expect(page.locator("#translation")).to_have_text(text)
    page.locator("#copy").click()
    expect(page.locator("#copy")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == text


@pytest.mark.slow
def test_the_other_models_answer_is_not_replaced_by_a_rewritten_one(bundles, opened, serving):
    with serving(served({"one": bundles.de_en, "other": bundles.de_en})) as address:
        page = opened(address)
        page.locator("#compare").select_option(index=1)
        translated(page, SLEEPS, SLEEPS_EN)
        held = hold_rewriting(page)
        choose_another(page, "dog")
        page.get_by_role("button", name="Show its attention weights").click()
        for route in held:
            route.continue_()
        page.wait_for_timeout(500)
        expect(page.locator("#translation, #other")).to_have_text([SLEEPS_EN, SLEEPS_EN])


@pytest.mark.slow
def test_a_language_that_two_models_reach_can_be_chosen(bundles, opened, serving, tmp_path):
    french = changed(bundles.en_de, tmp_path / "en-fr", languages={"source": "en", "target": "fr"})
    with serving(served({"de-en": bundles.de_en, "en-fr": french})) as address:
        page = opened(address)
        page.locator("#source").select_option("de")
        page.locator("#target").select_option("fr")
        page.locator("#text").fill(SLEEPS)
        expect(page.locator("#answered-by")).to_have_text("de-en+en-fr")
        page.locator("#translation .answer-word").nth(1).click()
        offered(page).nth(1).click()
        expect(page.locator("#rewritten")).to_be_visible()
