"""The glossary of the playground, and words that are not translated."""

import re

import httpx
import pytest
from playwright.sync_api import Page, expect

from service.auth.key_store import KeyStore
from tests.service.conftest import changed, served
from tests.service.playground.pages import DOG, DOG_EN, NEEDS_CHROMIUM, translated

pytestmark = NEEDS_CHROMIUM

CAT = "Eine Katze schläft."


def fields(page: Page) -> list[list[str]]:
    """The table of entries, without its empty row at the end."""
    rows = page.locator("#entries tr").all()[:-1]
    return [[field.input_value() for field in row.locator("input").all()] for row in rows]


def paste(page: Page, text: str) -> None:
    """Into the last row."""
    page.locator("#entries tr").last.locator("input").first.evaluate(
        """(field, text) => {
            const clipboardData = new DataTransfer();
            clipboardData.setData("text", text);
            field.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }""",
        text,
    )


def test_an_entry_changes_the_translation_and_stays_with_its_languages(page):
    translated(page, CAT, "A cat is sleeping.")
    page.locator("#glossary-button").click()
    expect(page.locator("#glossary-pair")).to_have_text("German to English")
    page.get_by_label("Term in German").first.fill("Katze")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Its translation in English").first).to_be_focused()
    page.keyboard.type("tiger")
    term = page.locator("#translation .answer-word.term")
    expect(term).to_have_text(["tiger"])
    expect(term).to_have_attribute("title", re.compile("^glossary: Katze → tiger"))
    expect(page.locator("#marks mark")).to_have_text(["Katze"])
    expect(page.locator("#glossary-count")).to_have_text("1")
    page.reload()
    translated(page, CAT, re.compile("tiger"))
    page.locator("#glossary-button").click()
    assert fields(page) == [["Katze", "tiger"]]
    page.locator("#swap").click()
    expect(page.locator("#glossary-pair")).to_have_text("English to German")
    assert fields(page) == []
    page.locator("#swap").click()
    page.get_by_role("button", name="Remove this entry").first.click()
    expect(page.locator("#glossary-count")).to_be_hidden()
    assert page.evaluate("localStorage.getItem('terms')") is None


@pytest.mark.slow
def test_entries_made_before_the_language_is_known_belong_to_it(bundles, opened, serving, tmp_path):
    dutch = changed(bundles.de_en, tmp_path / "nl-en", languages={"source": "nl", "target": "en"})
    with serving(served({"de-en": bundles.de_en, "nl-en": dutch})) as address:
        page = opened(address)
        page.locator("#glossary-button").click()
        expect(page.locator("#glossary-pair")).to_have_text("the text to English")
        paste(page, "Hund\thound\n")
        page.reload()
        page.locator("#glossary-button").click()
        expect(page.locator("#glossary-count")).to_have_text("1")
        assert fields(page) == [["Hund", "hound"]]
        translated(page, "Ein Hund läuft im Park und ein Kind spielt.", re.compile("hound"))
        expect(page.locator("#glossary-pair")).to_have_text("German to English")
        assert fields(page) == [["Hund", "hound"]]
        assert page.evaluate("Object.keys(JSON.parse(localStorage.getItem('terms')))") == ["de-en"]


@pytest.mark.slow
def test_an_entry_is_used_once_it_is_whole_and_the_typing_pauses(page):
    translated(page, CAT, "A cat is sleeping.")
    requests = []
    page.on("request", lambda request: requests.append(request) if request.url.endswith("/translate") else None)
    page.locator("#glossary-button").click()
    page.get_by_label("Term in German").first.press_sequentially("Katze")
    page.get_by_label("Its translation in English").first.press_sequentially("tiger")
    expect(page.locator("#translation")).to_contain_text("tiger")
    assert all("glossary" in request.post_data_json for request in requests), "half an entry changes nothing"
    assert len(requests) < len("tiger")


@pytest.mark.slow
def test_pasted_tables_are_rows(page):
    page.locator("#glossary-button").click()
    paste(page, "Hund\thound\r\nKatze\ttiger\r\n")
    assert fields(page) == [["Hund", "hound"], ["Katze", "tiger"]]
    paste(page, 'Park,"park, green"\nFluss,stream\n')
    assert fields(page)[2:] == [["Park", "park, green"], ["Fluss", "stream"]]
    translated(page, DOG, re.compile("hound"))
    page.get_by_role("button", name="Remove all").click()
    expect(page.locator("#translation")).to_have_text(DOG_EN)
    assert fields(page) == []


@pytest.mark.slow
def test_entries_that_contradict_each_other_are_marked(page):
    translated(page, DOG, DOG_EN)
    page.locator("#glossary-button").click()
    paste(page, "Hund\thound\nHund\tpoodle")
    expect(page.locator("#entries [aria-invalid=true]")).to_have_count(1)
    expect(page.locator("#entries [aria-invalid=true]")).to_have_value("poodle")
    expect(page.locator("#problem")).to_contain_text("The glossary")
    page.get_by_role("button", name="Remove this entry").nth(1).click()
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("#translation")).to_contain_text("hound")


@pytest.mark.slow
def test_a_selected_word_stays_as_it_is_by_keyboard_alone(page):
    translated(page, DOG, DOG_EN)
    page.locator("#text").focus()
    page.keyboard.press("Control+Home")
    for _ in range(4):
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Tab")
    keep = page.get_by_role("button", name="Do not translate")
    expect(keep).to_be_focused()
    expect(keep).to_have_attribute("title", "Keep “Hund” as it is")
    page.keyboard.press("Enter")
    expect(page.locator("#translation")).to_contain_text("Hund")
    expect(page.locator("#translation .answer-word.term")).to_have_attribute("title", re.compile("^stays as it is"))
    expect(page.locator("#marks mark")).to_have_text(["Hund"])
    expect(page.locator("#kept-in-text .chip")).to_have_text(["Hund×"])
    page.get_by_role("button", name="Translate Hund again").click()
    expect(page.locator("#translation")).to_have_text(DOG_EN)
    expect(page.locator("#kept-in-text, #marks mark").filter(visible=True)).to_have_count(0)
    page.locator("#glossary-button").click()
    page.get_by_label("Not translated", exact=True).last.fill("läuft")
    page.keyboard.press("Enter")
    expect(page.locator("#translation")).to_contain_text("läuft")


@pytest.fixture(scope="module")
def guarded(shared, tmp_path_factory):
    """The address of a service with keys, and a key."""
    store = str(tmp_path_factory.mktemp("keys") / "keys.db")
    key = KeyStore(store).add("reader")
    return shared(keys=store), key


@pytest.fixture
def animals(guarded):
    """The URL of a glossary that the service keeps for the key, and the headers with the key."""
    address, key = guarded
    headers = {"Authorization": f"Bearer {key}"}
    made = {"name": "Animals", "source_lang": "de", "target_lang": "en", "entries": "Hund\thound"}
    answer = httpx.post(f"{address}/glossaries", json=made, headers=headers)
    assert answer.status_code == 201
    url = f"{address}/glossaries/{answer.json()['glossary_id']}"
    yield url, headers
    httpx.delete(url, headers=headers)


def enter(page: Page, key: str) -> None:
    page.get_by_label("API key").fill(key)
    page.get_by_label("API key").press("Enter")


@pytest.mark.usefixtures("animals")
def test_a_glossary_of_the_service_can_be_chosen(guarded, opened):
    address, key = guarded
    page = opened(address)
    page.locator("#glossary-button").click()
    named = page.get_by_label("Of the service")
    expect(named).to_be_hidden()
    enter(page, key)
    expect(named).to_be_visible()
    translated(page, DOG, DOG_EN)
    named.select_option(label="Animals (1)")
    expect(page.locator("#translation")).to_contain_text("hound")
    named.select_option(label="None")
    expect(page.locator("#translation")).to_have_text(DOG_EN)
    named.select_option(label="Animals (1)")
    expect(page.locator("#translation")).to_contain_text("hound")
    page.get_by_role("button", name="Remove all").click()
    expect(page.locator("#translation")).to_have_text(DOG_EN)
    assert page.evaluate("localStorage.getItem('terms')") is None


@pytest.mark.slow
def test_a_chosen_glossary_is_left_out_while_the_service_does_not_have_it(guarded, animals, opened):
    (address, key), (glossary, headers) = guarded, animals
    page = opened(address)
    page.locator("#glossary-button").click()
    enter(page, key)
    page.get_by_label("Of the service").select_option(label="Animals (1)")
    translated(page, DOG, re.compile("hound"))
    page.evaluate("sessionStorage.clear()")  # as in a new tab
    page.reload()
    translated(page, DOG, DOG_EN)
    enter(page, key)
    expect(page.locator("#translation")).to_contain_text("hound")
    httpx.delete(glossary, headers=headers).raise_for_status()
    page.reload()
    translated(page, DOG, DOG_EN)
    expect(page.locator("#problem")).to_be_hidden()
