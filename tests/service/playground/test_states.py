"""Every state of the playground in a real browser, on a desktop (1280 pixels, slow tests) and on a phone (390
pixels, touch)."""

import re
import time

import pytest
import torch
from playwright.sync_api import expect

from interlinear.bundle import load, write_bundle
from interlinear.search import SearchOptions
from interlinear.text import END
from tests.service.conftest import changed, sentences, served
from tests.service.playground.pages import (
    DOG,
    DOG_EN,
    NEEDS_CHROMIUM,
    THEMES,
    on_phone,
    point,
    serious_problems,
    translated,
)

pytestmark = NEEDS_CHROMIUM

THREE = "Ein Hund läuft. Im Garten schläft eine Katze. Eine Frau sitzt."
THREE_EN = "A dog is running. A cat is sleeping in the garden. A woman is sitting."


def test_words_of_the_translation_are_highlighted(page):
    translated(page, DOG, DOG_EN)
    # The small model's weights are on single words for some of its output only: one of those.
    expect(page.locator(".row.target .word").first).to_be_visible()  # weights come after the text
    labels = [word.get_attribute("aria-label") for word in page.locator(".row.target .word").all()]
    index = next(i for i, label in enumerate(labels) if "no weight" not in label)
    word = page.locator("#translation .answer-word").nth(index)
    point(page, word)
    expect(word).to_have_class(re.compile("highlighted"))
    expect(page.locator(".row.target .word").nth(index)).to_have_class(re.compile("highlighted"))
    expect(page.locator(".row.source .word.highlighted").first).to_be_visible()
    expect(page.locator("#word-weights")).to_have_text(labels[index])
    partner = page.locator(".row.source .word:not([aria-label*='no weight'])").first
    partner.focus()
    expect(page.locator("#translation .answer-word.highlighted").first).to_be_visible()
    expect(page.locator("#word-weights")).to_have_text(partner.get_attribute("aria-label"))
    page.locator("#translation .answer-word").first.focus()
    page.keyboard.press("End")
    expect(page.locator("#translation .answer-word", has_text=".")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator(".answer-word.highlighted, .word.highlighted")).to_have_count(0)
    expect(page.locator("#word-weights")).to_be_empty()
    point(page, page.locator(".row.target .word").nth(index))
    expect(page.locator(".row.target .word").nth(index)).to_have_class(re.compile("highlighted"))
    point(page, page.locator("#lines h2"))
    expect(page.locator(".word.highlighted")).to_have_count(0)
    point(page, page.locator("#heat tbody tr").nth(1).locator("td").nth(1))
    expect(page.locator("#readout")).to_have_text(re.compile(r"dog ← Hund  \d\.\d\d"))


@pytest.mark.slow
def test_offsets_are_right_after_characters_of_two_code_units(page):
    page.locator("#source").select_option("de")
    page.locator("#text").fill("😀 Ein Hund läuft.")
    expect(page.locator("#explanation")).to_be_visible()
    written = page.locator("#translation .answer-word").all_text_contents()
    assert written == page.locator(".row.target .word").all_text_contents()
    shown = page.locator("#translation").text_content()
    assert shown == "😀 " + " ".join(written).replace(" .", "."), "what is no text stays in front of the sentence"


@pytest.mark.slow
@pytest.mark.parametrize("separator", ["\u2028", pytest.param("\u2029", marks=pytest.mark.slow)], ids=ascii)
def test_a_text_with_separators_of_unicode_is_translated(page, separator):
    translated(page, f"Ein Hund läuft.{separator}Eine Frau sitzt.", "A dog is running. A woman is sitting.")


@pytest.mark.slow
def test_only_the_selected_sentence_is_expanded(page):
    translated(page, THREE, THREE_EN)
    expect(page.locator("#of-sentences")).to_have_text("sentence 1 of 3")
    expect(page.locator(".row.source .word")).to_have_text(["Ein", "Hund", "läuft", "."])
    expect(page.locator("#heat tbody tr")).to_have_count(5)
    expect(page.locator(".sentence").filter(visible=True)).to_have_text(
        ["Im Garten schläft eine Katze.", "Eine Frau sitzt."]
    )
    point(page, page.locator("#translation .answer-word", has_text="cat"))
    expect(page.locator("#of-sentences")).to_have_text("sentence 2 of 3")
    expect(page.locator(".row.target .word.highlighted")).to_have_text(["cat"], use_inner_text=True)
    expect(page.locator("#heat tbody tr")).to_have_count(8)
    page.locator(".sentence", has_text="Eine Frau").click()
    expect(page.locator("#of-sentences")).to_have_text("sentence 3 of 3")
    words = page.locator("#heat tbody th[scope=row]")
    expect(words).to_have_text(
        [re.compile(rf"^{re.escape(word)} \d+ %$") for word in ("A", "woman", "is", "sitting", ".")]
    )
    translated(page, DOG, DOG_EN)
    expect(page.locator("#of-sentences")).to_be_hidden()


@pytest.mark.slow
def test_ten_sentences_fit_on_a_short_page(page):
    translated(page, " ".join([DOG] * 10), " ".join([DOG_EN] * 10))
    expect(page.locator("#of-sentences")).to_have_text("sentence 1 of 10")
    assert page.evaluate("document.documentElement.scrollHeight") < 2600


@pytest.mark.slow
def test_a_very_long_word_is_shortened_with_the_full_word_in_a_tooltip(page):
    long = "Donau" * 20 + "alb"
    page.locator("#source").select_option("de")
    page.locator("#text").fill(f"Ein {long} läuft.")
    word = page.locator(f".row.source .word[title^='{long}']")
    expect(word).to_have_text("DonauDonauDonauD…onaualb", use_inner_text=True)
    expect(page.locator(f"#heat [title='{long}']")).to_have_text("DonauDonauDonauD…onaualb")


@pytest.mark.slow
def test_the_heatmap_has_a_legend_and_fills_its_card(page):
    translated(page, DOG, DOG_EN)
    expect(page.locator(".scale")).to_have_text("weight 01")
    card, table = (page.locator(place).bounding_box()["width"] for place in ("#table .card", "#heat"))
    assert table > 0.8 * card


@pytest.mark.slow
def test_english_input_of_a_german_model_is_reported_before_translation(opened, shared):
    page = opened(shared())
    asked = []
    page.on("request", lambda request: asked.append(request.url) if "/translate" in request.url else None)
    page.locator("#text").fill("The old man is reading a newspaper in the park.")
    expect(page.locator("#doubt p")).to_have_text("This looks like English. Texts in German are translated here.")
    expect(page.locator("#translation")).to_be_empty()
    expect(page.locator("#detected")).to_be_empty()
    expect(page.locator("#copy")).to_be_disabled()
    page.locator("#text").fill("مرحبا بالعالم، كيف حالك اليوم؟")
    expect(page.locator("#doubt p")).to_contain_text("This looks like Arabic.")
    page.locator("#text").fill("🙂🙂")
    expect(page.locator("#doubt p")).to_have_text("There is no word in this text.")
    assert asked == []
    page.get_by_role("button", name="Translate it as German").click()
    expect(page.locator("#translation")).not_to_be_empty()
    expect(page.locator("#doubt")).to_be_hidden()
    expect(page.locator("#source")).to_have_value("de")
    page.locator("#source").select_option("auto")
    translated(page, "Ein Hund läuft im Park und ein Kind spielt.", re.compile("^A dog"))
    expect(page.locator("#detected")).to_have_text("German")
    page.locator("#text").fill("Hund")
    expect(page.locator("#detected")).to_have_text("German, not certain")


def test_the_empty_page_offers_example_texts_of_the_model(page, bundles, address):
    examples = [example["source"] for example in load(bundles.de_en).card.examples]
    assert len(examples) == 3
    expect(page.locator("#examples button")).to_have_text(examples)
    known = len({word.casefold() for word in load(bundles.de_en).tokenizers["source"].whole_words})
    size = f"A small model: its vocabulary has about {known} German words."
    expect(page.locator("#vocabulary")).to_have_text(size)
    page.locator("#examples button").first.click()
    expect(page.locator("#text")).to_have_value(examples[0])
    expect(page.locator("#translation")).not_to_be_empty()
    expect(page.locator("#start")).to_be_hidden()
    expect(page.locator("#vocabulary").filter(visible=True)).to_have_text(size)
    page.locator("#text").fill("Ein Quark läuft im Garten.")
    expect(page.locator("#note")).to_have_text("The model has never seen: Quark.")
    page.locator("#clear").click()
    expect(page.locator("#translation")).to_be_empty()
    expect(page.locator("#explanation")).to_be_hidden()
    expect(page.locator("#examples button")).to_have_count(3)
    page.locator("#tasks button", has_text="Edit").click()
    page.locator("#examples button").first.click()
    expect(page.locator("#mt")).not_to_be_empty()
    expect(page.locator("#edited")).to_be_visible()


def test_a_bundle_without_examples_offers_words_of_its_vocabulary(opened, bundles, shared):
    assert load(bundles.en_de).card.examples == []
    page = opened(shared("en-de"))
    words = page.locator("#examples button").all_text_contents()
    assert words and set(words) <= set(load(bundles.en_de).tokenizers["source"].whole_words)
    page.locator("#examples button").first.click()
    expect(page.locator("#translation")).not_to_be_empty()


RECORD = """() => {
    window.seen = [];
    const [text, translation] = ["text", "translation"].map((id) => document.getElementById(id));
    new MutationObserver(() => window.seen.push([text.value, translation.textContent]))
        .observe(translation, { childList: true, characterData: true, subtree: true });
}"""


def test_a_translation_appears_during_typing(page):
    page.evaluate(RECORD)
    text = "Im Garten schläft eine Katze. Ein Hund läuft im Park. Eine Frau sitzt."
    page.locator("#text").press_sequentially(text, delay=60)
    expect(page.locator("#translation")).to_have_text(re.compile("A woman is sitting.$"))
    early = [given for given, answer in page.evaluate("window.seen") if answer and len(given) < len(text)]
    assert early, "nothing appeared before the typing ended"


@pytest.mark.slow
def test_a_long_answer_is_shown_while_it_is_generated(opened, shared):
    page = opened(shared(slots=4))  # one after the other, not all of them at once
    page.evaluate(RECORD)
    # a late language, since short answers are not shown in parts
    page.route("**/detect", lambda route: (time.sleep(0.3), route.continue_()))
    page.locator("#text").fill(" ".join(german for german, _ in sentences()[:40]))
    expect(page.locator("#hint")).to_contain_text("too long to show")
    whole = page.locator("#translation").text_content()
    parts = [answer for _, answer in page.evaluate("window.seen")]
    assert any(0 < len(part) < len(whole) and whole.startswith(part[:10]) for part in parts)
    assert parts[-1] == whole


@pytest.mark.slow
def test_an_older_answer_never_replaces_a_newer_one(page):
    held = []
    page.route("**/translate", lambda route: held.append(route) if not held else route.continue_())
    page.locator("#text").fill("Ein Kind spielt.")
    page.wait_for_function("() => true")
    with page.expect_response("**/detect"):
        page.locator("#text").fill("Ein Mann spielt.")
    translated(page, DOG, DOG_EN)
    for route in held:
        route.abort()
    page.wait_for_timeout(300)
    expect(page.locator("#translation")).to_have_text(DOG_EN)
    expect(page.locator("#problem")).to_be_hidden()


def test_an_alternative_can_be_selected_and_undone(page):
    translated(page, DOG, DOG_EN)
    others = page.locator("#alternatives button")
    titles = [button.get_attribute("title") for button in others.all()]
    assert len(titles) == 3 and DOG_EN not in titles, "the answer is not among its alternatives"
    expect(page.locator("#alternatives mark, #alternatives del").first).to_be_visible()
    expect(others.first.locator("small")).to_have_text(re.compile(r"^\d+ %$"))
    expect(page.locator("#score-note")).to_contain_text("mean probability that the model gives to each piece")
    others.first.click()
    expect(page.locator("#translation")).to_have_text(titles[0])
    expect(page.locator("#lines, #table").filter(visible=True)).to_have_count(0)
    expect(page.locator("#hint")).to_contain_text("This answer is an alternative.")
    page.locator("#copy").click()
    expect(page.locator("#copy")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == titles[0]
    expect(page.locator("#copy")).to_have_text("Copy")  # again, after the confirmation
    back = page.locator("#alternatives button", has_text="first choice")
    expect(back).to_have_attribute("title", DOG_EN)
    back.click()
    expect(page.locator("#translation")).to_have_text(DOG_EN)
    expect(page.locator("#lines")).to_be_visible()


@pytest.mark.slow
def test_a_score_that_is_not_a_mean_probability_is_labelled_correctly(opened, bundles, serving, tmp_path):
    penalties = {"whole": "none", "scored": 0.6}
    folders = {
        name: changed(bundles.de_en, tmp_path / name, search=SearchOptions(length_penalty=penalty))
        for name, penalty in penalties.items()
    }
    with serving(served(folders)) as address:
        page = opened(address)
        translated(page, DOG, DOG_EN)
        expect(page.locator("#score-note")).to_contain_text("the probability that the model gives to the whole text")
        page.locator("#model").select_option(label="scored")
        expect(page.locator("#score-note")).to_contain_text("the score that the search ranks by")
        expect(page.locator("#alternatives small").first).to_have_text(re.compile(r"^-\d+\.\d\d$"))


@pytest.mark.slow
def test_buttons_have_icons_and_touch_size_on_a_phone(page):
    translated(page, DOG, DOG_EN)
    for name in ("Clear", "Link", "Copy"):
        button = page.get_by_role("button", name=name, exact=True)
        expect(button.locator("svg")).to_be_visible()
        size = button.bounding_box()
        if on_phone(page):
            assert size["width"] >= 44 and size["height"] >= 44


@pytest.mark.slow
def test_names_are_readable(page):
    expect(page.locator("#model option").first).to_have_text("Any model")
    expect(page.locator("#pair-mark")).to_have_text("German to English")
    translated(page, DOG, DOG_EN)
    expect(page.locator("#answered-by")).to_have_text("de-en")
    expect(page.locator("#answered-by")).to_have_attribute("title", re.compile("^de-en@sha-"))
    assert "sha-" not in page.locator("body").inner_text()


@pytest.mark.slow
def test_the_service_stops_and_comes_back(one_model, opened, serving):
    with serving(one_model) as address:
        page = opened(address)
        translated(page, DOG, DOG_EN)
    expect(page.locator("#status")).to_have_text("the service is not answering")
    expect(page.locator("#translation")).to_have_text(DOG_EN)  # no request was made meanwhile: it is the answer
    port = int(address.rpartition(":")[2])
    with serving(one_model, port):
        expect(page.locator("#status")).to_have_text("ready · 1 model")
        expect(page.locator("#translation")).to_have_text(DOG_EN)
        expect(page.locator("#start")).to_be_hidden()
    expect(page.locator("#status")).to_have_text("the service is not answering")
    page.locator("#text").fill("Eine Frau sitzt.")
    expect(page.locator("#problem")).to_contain_text("The service cannot be reached.")
    expect(page.locator("#stale")).to_be_visible()
    expect(page.locator("#time")).to_be_empty()
    for button in ("copy", "link"):
        expect(page.locator(f"#{button}")).to_be_disabled()
    with serving(one_model, port):
        expect(page.locator("#status")).to_have_text("ready · 1 model")
        expect(page.locator("#translation")).to_have_text("A woman is sitting.")
        expect(page.locator("#stale, #problem").filter(visible=True)).to_have_count(0)
        expect(page.locator("#copy")).to_be_enabled()


@pytest.mark.slow
def test_an_answer_without_words_is_an_answer(bundles, opened, serving, tmp_path):
    silent = load(bundles.de_en)
    with torch.no_grad():
        silent.model.output.bias[END] = 100.0
    write_bundle(tmp_path / "silent", silent.model, silent.tokenizers, silent.card)
    with serving(served({"silent": tmp_path / "silent"})) as address:
        page = opened(address)
        page.locator("#text").fill(THREE)
        expect(page.locator("#answered-by")).to_have_text("silent")
        expect(page.locator("#stale, #explanation, #problem").filter(visible=True)).to_have_count(0)
        expect(page.locator("#copy")).to_be_enabled()


def test_a_long_sentence_is_drawn_in_several_lines(page):
    """Words of one side only; and of both, of which the first is linked to the last: every link is drawn."""
    drawn = page.evaluate(
        """async () => {
            const { Interlinear } = await import("/playground/explanation/interlinear.js");
            const gloss = document.createElement("div");
            document.body.append(gloss);
            gloss.style.width = "300px";
            const words = Array.from({ length: 30 }, (_, i) => ({ text: `word${i}` }));
            return [[words, []], [[], words], [words, words]].map(([source, target]) => {
                const weights = target.map((_, i) => source.map((_, j) => (i + j === 29 ? 1 : 0)));
                new Interlinear(gloss, () => {}).show({ source, target, weights }, ["de", "en"]);
                return [".system", ".word", "path", "path.across"].map((what) => gloss.querySelectorAll(what).length);
            });
        }"""
    )
    assert all(lines > 1 for lines, *_ in drawn)
    assert [(words, links) for _, words, links, _ in drawn] == [(30, 0), (30, 0), (60, 30)]
    assert drawn[2][3] > 0, "some of them go from line to line"


@pytest.mark.slow
@pytest.mark.parametrize("earlier", [DOG_EN, ""], ids=["after an answer", "first"])
def test_a_beginning_that_breaks_off_is_not_the_answer_to_an_earlier_text(page, earlier):
    if earlier:
        translated(page, DOG, earlier)

    def break_off(route):
        time.sleep(0.4)  # the beginnings of quick answers are not shown
        events = 'event: prefix\ndata: {"text": "A child"}\n\n'
        route.fulfill(body=events, content_type="text/event-stream")

    page.route("**/translate", break_off)
    page.locator("#text").fill("Ein Kind spielt.")
    expect(page.locator("#problem")).to_contain_text("The service cannot be reached.")
    expect(page.locator("#translation")).to_have_text(earlier)
    expect(page.locator("#stale")).to_be_visible(visible=bool(earlier))


@pytest.mark.slow
def test_the_languages_are_swapped_only_where_that_of_the_text_is_known(bundles, opened, serving, tmp_path):
    dutch = changed(bundles.de_en, tmp_path / "nl-en", languages={"source": "nl", "target": "en"})
    with serving(served({"de-en": bundles.de_en, "en-de": bundles.en_de, "nl-en": dutch})) as address:
        page = opened(address)
        page.locator("#target").select_option("en")
        swap = page.get_by_role("button", name="Swap the languages")
        translated(page, "Ein Hund läuft im Park und ein Kind spielt.", re.compile("^A dog"))
        expect(swap).to_be_visible()
        page.locator("#clear").click()
        expect(swap).to_be_hidden()
        page.locator("#source").select_option("de")
        swap.click()
        expect(page.locator("#target")).to_have_value("de")


def test_an_image_that_is_too_large_is_refused_before_it_is_sent(bundles, opened, serving):
    with serving(served({"pictures": bundles.pictures}, image_bytes=1024)) as address:
        page = opened(address)
        requests = []
        page.on("request", lambda request: requests.append(request.url) if request.method == "POST" else None)
        page.locator("#file").set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": bytes(1025)})
        expect(page.locator("#problem")).to_have_text("The image must not be larger than 1,024 bytes.")
        assert requests == []
        page.locator("#text").fill("The chair.")
        expect(page.locator("#translation")).to_have_text("Der Stuhl.")
        expect(page.locator("#problem")).to_be_hidden()


@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_no_serious_problem_in_any_state(page, theme):
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")

    def check(state: str) -> None:
        assert serious_problems(page) == [], state

    check("empty")
    translated(page, THREE, THREE_EN)
    check("sentences")
    page.locator("#alternatives button").first.click()
    check("alternative")
    page.locator("#text").fill("Je ne sais pas ce que vous voulez dire, mon ami.")
    expect(page.locator("#doubt")).to_be_visible()
    expect(page.locator("#pair-mark")).to_have_text("German to English")
    expect(page.locator("#examples button").first).to_be_visible()  # they are what the model can read
    check("doubt")


def test_the_api_page_has_code_complete_commands_and_a_copy_button(opened, address):
    page = opened(address)
    page.goto(f"{address}/docs")
    first = page.locator("details[open] .request")
    expect(first).to_have_count(1)
    assert "`" not in page.locator("#api").text_content()
    pre = first.locator("pre")
    assert pre.evaluate("node => node.scrollWidth <= node.clientWidth"), "the command is not cut"
    first.get_by_role("button", name="Copy").click()
    expect(first.get_by_role("button")).to_contain_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == pre.text_content()
    expect(first.get_by_role("button")).to_have_text("Copy")
