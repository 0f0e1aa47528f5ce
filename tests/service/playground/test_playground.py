"""The playground in a real browser, with real typing, against a real model."""

import io
import re
from collections.abc import Iterator

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from interlinear.search import SearchOptions
from service.auth.key_store import KeyStore
from service.settings import ServedModelConfig, Settings
from tests.service.balls import picture
from tests.service.conftest import changed, served
from tests.service.playground.pages import NEEDS_CHROMIUM, THEMES, overflow, serious_problems

pytestmark = NEEDS_CHROMIUM

ROUNDED = "weight => weight.toFixed(2)"  # as the page writes it: Python rounds 0.125 down, a browser up


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The loaded playground; a console message or a request to another host fails the test."""
    page, said, elsewhere = browser.new_page(viewport={"width": 1280, "height": 900}), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(address) else elsewhere.append(request.url))
    page.goto(address)
    expect(page.locator("#status")).to_have_text("ready · 5 models")
    yield page
    page.close()
    meant = ("status of 4", "net::ERR_FAILED")  # expected error responses, and requests that a test lets fail
    assert [line for line in said if not any(one in line for one in meant)] == [], "the console has something to say"
    assert elsewhere == []


def test_typing_translates_and_draws_the_attention(page):
    page.locator("#text").press_sequentially("Im Garten schläft eine Katze.")
    expect(page.locator("#translation")).to_have_text("A cat is sleeping in the garden.")
    expect(page.locator("#detected")).to_have_text("German")
    expect(page.locator("#pair-mark")).to_have_text("German to English")
    expect(page.locator(".row.source .word")).to_have_text(["Im", "Garten", "schläft", "eine", "Katze", "."])
    expect(page.locator(".row.target .word")).to_have_text(["A", "cat", "is", "sleeping", "in", "the", "garden", "."])
    assert page.locator("#gloss path").count() >= 4
    assert page.locator("#heat tbody td").count() == 6 * 8
    expect(page.locator("#alternatives li")).to_have_count(3)
    expect(page.locator("#answered-by")).to_contain_text("de-en")
    expect(page.locator("#scores")).to_contain_text("BLEU 99.0")
    expect(page.locator("#access")).to_be_hidden()


@pytest.mark.slow
def test_hovering_over_a_word_highlights_linked_words_and_arrow_keys_move(page):
    page.locator("#text").press_sequentially("Ein Hund läuft.")
    word = page.locator(".row.target .word:not([aria-label*='no weight'])").first
    word.hover()
    expect(word).to_have_class(re.compile("highlighted"))
    lit = page.locator(".row.source .word.highlighted")
    assert lit.count() >= 1
    assert 0 < float(lit.first.locator("small").text_content() or 0) <= 1, "the weight stands at the partner"
    page.mouse.move(1, 1)
    expect(page.locator(".word.highlighted")).to_have_count(0)
    page.locator(".row.source .word").first.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator(".row.source .word").nth(1)).to_be_focused()
    page.keyboard.press("End")
    expect(page.locator(".row.source .word").last).to_be_focused()
    word.focus()
    page.keyboard.press("ArrowUp")
    expect(page.locator(".row.source .word:focus")).to_have_count(1)


@pytest.mark.slow
def test_an_error_is_a_message_and_the_last_answer_stays(page):
    page.locator("#text").press_sequentially("Ein Hund läuft.")
    expect(page.locator("#translation")).to_have_text("A dog is running.")
    page.locator("#text").fill("Hund " * 2000)
    expect(page.locator("#problem")).to_contain_text("must not be longer than")
    expect(page.locator("#translation")).to_have_text("A dog is running.")
    expect(page.locator("#translation")).to_have_class("old")
    expect(page.locator("#stale")).to_have_text("This is the answer to an earlier text:")
    expect(page.locator("#copy")).to_be_disabled()
    expect(page.locator("#time")).to_be_empty()
    assert page.locator("#translation").evaluate("node => node.inert")
    page.locator("#text").fill("Eine Frau sitzt.")
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("#copy")).to_be_enabled()


def test_script_in_a_text_is_not_executed(page):
    page.locator("#text").fill("<img src=x onerror=alert(1)> <b>Hund</b>")
    expect(page.locator("#explanation")).to_be_visible()
    expect(page.locator("#explanation")).to_contain_text("onerror")
    assert page.locator("#gloss img, #gloss b, #translation b").count() == 0


@pytest.mark.slow
def test_swap_keeps_a_text_that_is_not_answered(page):
    page.locator("#text").press_sequentially("Ein Hund läuft.")
    expect(page.locator("#translation")).to_have_text("A dog is running.")
    page.route("**/translate", lambda route: route.abort())
    page.locator("#text").fill("Eine Frau sitzt.")
    expect(page.locator("#stale")).to_be_visible()
    page.locator("#swap").click()
    expect(page.locator("#source")).to_have_value("en")
    expect(page.locator("#text")).to_have_value("Eine Frau sitzt.")


@pytest.mark.slow
def test_swap_and_link_and_theme(page, address, browser):
    page.locator("#text").press_sequentially("Ein Hund läuft.")
    expect(page.locator("#translation")).to_have_text("A dog is running.")
    page.locator("#swap").click()
    expect(page.locator("#text")).to_have_value("A dog is running.")
    expect(page.locator("#answered-by")).to_contain_text("en-de")
    page.locator("#theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.goto(f"{address}/#q=Ein+Mann+spielt.&source=de&target=en")
    expect(page.locator("#translation")).to_have_text("A man is playing.")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_tasks_can_be_selected_and_headlines_show_every_matrix_and_the_gate(page, address):
    expect(page.locator("#tasks button")).to_have_text(["Text", "Document", "Image", "Edit", "Summary"])
    page.locator("#tasks button", has_text="Summary").click()
    expect(page.locator("#source, #target, #swap").filter(visible=True)).to_have_count(0)
    expect(page.locator("#model option")).to_have_text([re.compile("^headlines")])
    page.locator("#text").press_sequentially("A cat is sleeping in the garden.")
    expect(page.locator("#translation")).to_have_text("Cat sleeps")
    expect(page.locator("#pair-mark")).to_have_text("English")
    expect(page.locator("#answered-by")).to_contain_text("headlines")
    expect(page.locator(".row.target .word")).to_have_text(["Cat", "sleeps"])
    expect(page.locator("#matrices button")).to_have_text(["Attention", "Word attention", "UAM", "Gated"])
    expect(page.locator("#matrices [aria-pressed=true]")).to_have_text(["UAM"])  # the best that the model has
    page.locator("#matrices button", has_text="Word attention").click()
    expect(page.locator("#matrices [aria-pressed=true]")).to_have_text(["Word attention"])
    page.locator("#heat tbody tr").nth(1).locator("td").nth(3).hover()
    expect(page.locator("#readout")).to_contain_text("sleeps ← sleeping")
    expect(page.locator("#heat td.gate")).to_have_count(2)
    page.locator("#heat td.gate").first.hover()
    expect(page.locator("#readout")).to_contain_text(re.compile(r"Cat ← word attention  0\.\d\d"))
    page.locator("#tasks button", has_text="Text").click()
    page.locator("#text").fill("Ein Hund läuft.")
    expect(page.locator("#translation")).to_have_text("A dog is running.")
    expect(page.locator("#heat td.gate")).to_have_count(0)
    page.goto(f"{address}/#q=A+dog+is+sitting+in+the+park.&task=summarization")
    expect(page.locator("#translation")).to_have_text("Dog sits")
    page.goto(f"{address}/#q=Ein+Mann+spielt.&source=de&target=en")
    expect(page.locator("#translation")).to_have_text("A man is playing.")


def drop(page: Page, event: str, data: bytes) -> None:
    """An image by drag and drop (`drop`) or from the clipboard (`paste`)."""
    page.evaluate(
        """([event, bytes]) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(bytes)], "dropped.png", { type: "image/png" }));
            const options = { bubbles: true, cancelable: true };
            const happened = event === "paste"
                ? new ClipboardEvent(event, { ...options, clipboardData: transfer })
                : new DragEvent(event, { ...options, dataTransfer: transfer });
            document.getElementById("text").dispatchEvent(happened);
        }""",
        [event, list(data)],
    )


def png(colour: str, corner: tuple[int, int] = (0, 0)) -> bytes:
    file = io.BytesIO()
    picture(colour, corner).save(file, "PNG")
    return file.getvalue()


def test_an_image_is_chosen_dropped_or_pasted_and_its_regions_are_shown_for_each_word(page):
    page.locator("#tasks button", has_text="Image").click()
    assert page.locator("#examples img").evaluate("image => image.complete && image.naturalWidth") == 32
    page.locator("#examples button").click()
    expect(page.locator("#translation")).to_have_text("Der rote Ball.")
    expect(page.locator("#name")).to_have_text("example.jpg")
    page.locator("#text").fill("")
    page.locator("#file").set_input_files({"name": "ball.png", "mimeType": "image/png", "buffer": png("rote")})
    expect(page.locator("#name")).to_have_text("ball.png")
    expect(page.locator("#translation")).to_have_text("Der rote Ball.")
    # No punctuation mark is selected at first, though without a text its share of the image is the largest.
    expect(page.locator("#answer-words .highlighted")).to_have_text(re.compile(r"^\w+$"))
    expect(page.locator("#lines, #table").filter(visible=True)).to_have_count(0)
    page.locator("#text").press_sequentially("The chair.")
    expect(page.locator("#translation")).to_have_text("Der rote Stuhl.")
    drop(page, "drop", png("blaue", (1, 1)))
    expect(page.locator("#translation")).to_have_text("Der blaue Stuhl.")
    drop(page, "paste", png("gelbe"))
    expect(page.locator("#translation")).to_have_text("Der gelbe Stuhl.")
    assert page.locator("#attention-image").evaluate("image => image.complete && image.naturalWidth") == 32
    expect(page.locator("#legend li")).to_have_text(["Source text", "Image", "Sentinel"])
    words = page.locator("#answer-words button")
    expect(words).to_have_text(["Der", "gelbe", "Stuhl", "."])
    expect(page.locator("#answer-words .highlighted")).to_have_count(1)  # the word with the largest share of the image
    weights = [float(cell.text_content()) for cell in page.locator("#regions span").all()]
    assert sum(weights) == pytest.approx(1, abs=0.03)
    words.nth(2).hover()
    shares = page.locator("#source-shares")
    expect(shares).to_contain_text(re.compile(r"Stuhl: source text 0\.\d\d, image 0\.\d\d, sentinel"))
    others = [float(cell.text_content()) for cell in page.locator("#regions span").all()]
    assert others != weights, "each word has its own"
    expect(page.locator("#regions .most")).to_have_count(1)
    page.locator("#answer-words .highlighted").focus()
    page.keyboard.press("Home")
    expect(words.first).to_be_focused()
    expect(page.locator("#source-shares")).to_contain_text("Der: ")
    page.set_viewport_size({"width": 390, "height": 844})
    assert overflow(page) <= 0, "nothing sticks out"
    page.locator("#remove").click()
    expect(page.locator("#translation")).to_have_text("Der Stuhl.")
    expect(page.locator("#frame")).to_be_hidden()
    expect(page.locator("#answer-words button")).to_have_count(3)


def test_an_invalid_image_is_reported(page):
    page.locator("#tasks button", has_text="Image").click()
    page.locator("#file").set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": png("rote")[:-40]})
    expect(page.locator("#problem")).to_contain_text("The image is a damaged PNG")
    page.locator("#file").set_input_files({"name": "a.png", "mimeType": "image/png", "buffer": png("rote")})
    expect(page.locator("#translation")).to_have_text("Der rote Ball.")
    expect(page.locator("#problem")).to_be_hidden()


@pytest.mark.slow
def test_edits_are_struck_through_and_underlined(page, address):
    page.locator("#tasks button", has_text="Edit").click()
    page.locator("#mt").fill("Ein Hund laufen im Park.")
    expect(page.locator("#translation")).to_have_text("Ein Hund läuft im Park.")
    page.locator("#text").fill("A dog is running in the park.")
    expect(page.locator("#legend li")).to_have_text(["Source text", "Machine translation"])
    expect(page.locator("#edits")).to_have_text("Ein Hund laufenläuft im Park.")
    for tag, word, line in (("del", "laufen", "line-through"), ("ins", "läuft", "underline")):
        changed = page.locator(f"#edits {tag}")
        expect(changed).to_have_text([word])
        expect(changed).to_have_css("text-decoration-line", line)
    expect(page.locator("#changes")).to_have_text("1 change")
    page.locator("#matrices button", has_text="Machine translation").click()
    expect(page.locator(".row.source .word")).to_have_text(["Ein", "Hund", "laufen", "im", "Park", "."])
    page.goto(f"{address}/#mt=Ein+Mann+sitzen.&task=post-edit&source=en&target=de")
    expect(page.locator("#mt")).to_have_value("Ein Mann sitzen.")
    expect(page.locator("#edited")).to_be_visible()
    page.locator("#tasks button", has_text="Text").click()
    page.locator("#source").select_option("auto")
    page.locator("#text").fill("Ein Hund läuft.")
    expect(page.locator("#translation")).to_have_text("A dog is running.")
    expect(page.locator("#edited, #sources, #draft").filter(visible=True)).to_have_count(0)


@pytest.mark.slow
def test_the_probability_of_every_word_is_text(page, address):
    page.locator("#text").press_sequentially("Im Garten schläft eine Katze.")
    expect(page.locator("#translation")).to_have_text("A cat is sleeping in the garden.")
    request = {"q": "Im Garten schläft eine Katze.", "source": "de", "target": "en", "explain": True}
    (explanation,) = httpx.post(f"{address}/translate", json=request).json()["explanations"]
    said = [f"{round(100 * confidence)} %" for confidence in explanation["confidence"]]
    expect(page.locator("#heat tbody th small")).to_have_text(said)
    words = page.locator(".row.target .word")
    for place, text in enumerate(said):
        expect(words.nth(place)).to_have_attribute("title", f"probability {text}")
        expect(words.nth(place)).to_have_attribute("aria-label", re.compile(re.escape(f"({text}): ")))
    words.nth(1).hover()
    expect(page.locator("#word-weights")).to_contain_text(f"cat ({said[1]}): ")
    left_out = [doubt for doubt in explanation["doubts"] if doubt["side"] == "source"]
    expect(page.locator(".row.source .word[title]")).to_have_count(len(left_out))
    doubts = words.evaluate_all("words => words.map((word) => getComputedStyle(word).getPropertyValue('--doubt'))")
    assert [float(doubt) for doubt in doubts] == pytest.approx([1 - c for c in explanation["confidence"]], abs=1e-3)


def test_a_doubtful_word_is_underlined_and_says_why(bundles, serving, browser, tmp_path):
    """A model that stops too early leaves words out, in the second of two sentences too."""
    brief = changed(bundles.de_en, tmp_path / "brief", search=SearchOptions(max_length=1))
    with serving(served({"brief": brief})) as address, browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        page.locator("#text").fill("Ein Hund läuft im Park.\nEine Katze schläft im Garten.")
        page.locator(".sentence", has_text="Eine Katze schläft im Garten.").click()
        request = {"q": "Eine Katze schläft im Garten.", "source": "de", "target": "en", "explain": True}
        (explanation,) = httpx.post(f"{address}/translate", json=request).json()["explanations"]
        left_out = [doubt["word"] for doubt in explanation["doubts"] if doubt["side"] == "source"]
        words = page.locator(".row.source .word")
        expect(words).to_have_text([span["text"] for span in explanation["source"]])
        word = words.nth(left_out[0])
        reason = "perhaps left out: no word of the translation goes with it"
        expect(word).to_have_attribute("title", reason)
        expect(word).to_have_attribute("aria-label", re.compile(reason))
        expect(word).to_have_css("text-decoration-style", "dotted")
        expect(words.nth(0)).to_have_css("text-decoration-line", "none")  # "Eine" is too short to count
        word.hover()
        expect(page.locator("#word-weights")).to_contain_text(f"– {reason}")
        assert Axe().run(page).violations_count == 0


@pytest.mark.slow
def test_the_words_of_the_answer_say_why_they_are_doubtful(bundles, serving, browser, tmp_path):
    """A model that must go on after the end of its sentence writes words that it finds improbable."""
    wordy = changed(bundles.de_en, tmp_path / "wordy", search=SearchOptions(min_length=12))
    with serving(served({"wordy": wordy})) as address, browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        request = {"q": "Ein Hund läuft im Park.", "source": "de", "target": "en", "explain": True}
        (explanation,) = httpx.post(f"{address}/translate", json=request).json()["explanations"]
        doubtful = sorted({doubt["word"] for doubt in explanation["doubts"] if doubt["side"] == "target"})
        assert 0 < len(doubtful) < len(explanation["target"])
        page.locator("#text").fill(request["q"])
        marked = page.locator("#translation .answer-word.doubtful")
        expect(marked).to_have_text([explanation["target"][j]["text"] for j in doubtful])
        expect(marked.first).to_have_attribute("title", re.compile("^perhaps wrong: "))
        expect(marked.first).to_have_css("text-decoration-style", "dotted")
        marked.first.focus()
        expect(page.locator("#word-weights")).to_contain_text("perhaps wrong: the model found it improbable")
        assert Axe().run(page).violations_count == 0


@pytest.mark.slow
def test_links_of_both_directions_are_shown_first_and_others_can_be_selected(bundles, serving, browser):
    both = ServedModelConfig(name="de-en", uri=str(bundles.de_en), reverse=str(bundles.en_de))
    with serving(Settings(models=(both,), threads=1)) as address, browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        page.locator("#text").press_sequentially("Im Garten schläft eine Katze.")
        expect(page.locator("#matrices button")).to_have_text(["Both directions", "Attention", "Origin"])
        expect(page.locator("#matrices [aria-pressed=true]")).to_have_text(["Both directions"])
        request = {"q": "Im Garten schläft eine Katze.", "source": "de", "target": "en", "explain": True}
        (explanation,) = httpx.post(f"{address}/translate", json=request).json()["explanations"]
        drawn = [link for link in explanation["links"] if link["symmetrized_weight"] >= 0.08]
        assert drawn and explanation["symmetrized"] is True
        expect(page.locator("#gloss path")).to_have_count(len(drawn))
        cell = page.locator("#heat tbody tr").nth(drawn[0]["target"]).locator("td").nth(drawn[0]["source"])
        expect(cell).to_have_attribute("aria-label", page.evaluate(ROUNDED, drawn[0]["symmetrized_weight"]))
        page.locator("#matrices button", has_text="Attention").click()
        weight = explanation["matrices"]["attention"][drawn[0]["target"]][drawn[0]["source"]]
        expect(cell).to_have_attribute("aria-label", page.evaluate(ROUNDED, weight))
        page.locator("#text").fill("Eine Frau sitzt.\nEin Kind spielt.")
        expect(page.locator("#of-sentences")).to_have_text("sentence 1 of 2")
        page.locator("#matrices button", has_text="Both directions").click()
        expect(page.locator("#heat tbody th small")).to_have_count(5)
        page.locator(".sentence", has_text="Ein Kind spielt.").click()
        expect(page.locator(".row.target .word").nth(1)).to_contain_text("child")
        answer = httpx.post(f"{address}/translate", json=request | {"q": "Eine Frau sitzt.\nEin Kind spielt."})
        links = answer.json()["explanations"][0]["links"]
        second = [link for link in links if link["target"] >= 5 and link["symmetrized_weight"] >= 0.08]
        expect(page.locator("#gloss path")).to_have_count(len(second))
        assert Axe().run(page).violations_count == 0


@pytest.mark.slow
def test_two_models_answer_side_by_side_and_either_can_be_inspected(bundles, serving, browser, tmp_path):
    brief = changed(bundles.de_en, tmp_path / "brief", search=SearchOptions(max_length=2))
    several = served({"one": bundles.de_en, "other": brief, "headlines": bundles.headlines})
    with serving(several) as address, browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        expect(page.locator("#compare option")).to_have_count(3)
        page.locator("#text").press_sequentially("Im Garten schläft eine Katze.")
        expect(page.locator("#translation")).to_have_text("A cat is sleeping in the garden.")
        expect(page.locator("#second")).to_be_hidden()
        other = page.locator("#compare option", has_text="other").get_attribute("value")
        page.get_by_label("Model to compare with").select_option(other)
        expect(page.locator("#other-by")).to_contain_text("other")
        expect(page.locator("#other")).to_have_text(re.compile(r"^A \w+$"))
        words = (page.locator("#other").text_content() or "").split()
        apart = [word for word in "A cat is sleeping in the garden.".split() if word not in words]
        expect(page.locator("#translation mark")).to_have_text(apart)
        expect(page.locator("#other mark")).to_have_count(0)
        inside = page.get_by_role("button", name="Show its attention weights")
        inside.click()
        expect(inside).to_have_attribute("aria-pressed", "true")
        expect(page.locator(".row.target .word")).to_have_text(words)
        expect(page.locator("#other .answer-word")).to_have_text(words)
        expect(page.locator("#translation .answer-word")).to_have_count(0)
        page.get_by_label("Model to compare with").select_option("")
        expect(page.locator("#second")).to_be_hidden()
        expect(page.locator(".row.target .word")).to_have_count(8)
        page.set_viewport_size({"width": 390, "height": 844})
        assert overflow(page) <= 0, "nothing sticks out"


@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_no_serious_problem_on_any_tab(page, theme):
    page.emulate_media(color_scheme=theme)
    given = {
        "Text": "Im Garten schläft eine Katze.",
        "Summary": "A dog is running in the park.",
        "Image": "The chair.",
        "Edit": "A dog is running.",
    }
    for task, text in given.items():
        page.get_by_role("tab", name=task, exact=True).click()
        page.locator("#text").fill(text)
        if task == "Image":
            page.locator("#file").set_input_files({"name": "ball.png", "mimeType": "image/png", "buffer": png("rote")})
        if task == "Edit":
            page.locator("#mt").fill("Eine Hund läuft.")
            opened = page.locator("#matrices [aria-pressed=true]")  # with most attention
            expect(opened).to_have_text("Machine translation")
        expect(page.locator("#translation")).not_to_be_empty()
        expect(page.locator("#explanation")).to_be_visible()
        assert serious_problems(page) == []


@pytest.mark.slow
def test_a_long_sentence_is_translated_in_parts_and_the_page_says_so(page):
    page.locator("#text").fill("Ein Hund läuft, " * 60)
    expect(page.locator("#note")).to_contain_text("translated in parts.")
    page.locator("#text").fill("Ein Hund läuft.")
    expect(page.locator("#translation")).to_have_text("A dog is running.")
    expect(page.locator("#note")).to_be_hidden()


@pytest.mark.slow
def test_a_long_text_is_truncated_and_the_page_says_so(page):
    page.locator("#tasks button", has_text="Summary").click()
    page.locator("#text").fill("A dog is running in the park. " * 40)
    expect(page.locator("#note")).to_contain_text(re.compile("of its 40 sentences the first [0-9]+ were read"))
    page.locator("#text").fill("A dog is running in the park.")
    expect(page.locator("#note")).to_be_hidden()


def test_a_key_is_asked_for_kept_in_the_tab_and_refused_with_a_message(one_model, serving, browser, tmp_path):
    keys = KeyStore(tmp_path / "keys.db")
    good = keys.add("reader")
    guarded = one_model.model_copy(update={"keys": keys.path, "require_key": True})
    with serving(guarded) as address, browser.new_context() as context:
        page = context.new_page()
        refused = []
        page.on("response", lambda answer: refused.append(answer.status) if answer.status >= 400 else None)
        page.goto(address)
        key, problem = page.get_by_label("API key"), page.locator("#problem")
        expect(problem).to_have_text("This service requires an API key.")
        expect(key).to_have_attribute("aria-invalid", "true")
        page.locator("#text").press_sequentially("Ein Hund läuft.")
        expect(problem).to_have_text("This service requires an API key.")
        assert refused == [], "what cannot be answered is not asked"
        key.fill("il_nobody")
        key.press("Enter")
        expect(problem).to_have_text("There is no such key.")
        key.fill(good)
        key.press("Enter")
        expect(page.locator("#translation")).to_have_text("A dog is running.")
        expect(problem).to_be_hidden()
        expect(key).to_have_attribute("aria-invalid", "false")
        assert refused == [401]
        page.locator("#link").click()
        assert good not in page.url and good not in page.evaluate("JSON.stringify({ ...localStorage })")
        page.reload()
        page.locator("#text").press_sequentially("Eine Frau sitzt.")
        expect(page.locator("#translation")).to_have_text("A woman is sitting.")
        other = context.new_page()
        other.goto(address)
        expect(other.locator("#problem")).to_have_text("This service requires an API key.")
        keys.revoke("reader")
        page.wait_for_timeout(1500)
        page.locator("#text").fill("Ein Mann spielt.")
        expect(problem).to_have_text("The key has been revoked.")
        expect(key).to_have_attribute("aria-invalid", "true")
        page.set_viewport_size({"width": 390, "height": 844})
        assert overflow(page) <= 0, "nothing sticks out"


@pytest.mark.slow
def test_without_translation_models_the_page_summarizes(browser, shared):
    with browser.new_page() as page:
        page.goto(shared("headlines"))
        expect(page.locator("#status")).to_have_text("ready · 1 model")
        expect(page.locator("#tasks button")).to_have_count(0)
        page.locator("#text").press_sequentially("A dog is running in the park.")
        expect(page.locator("#translation")).to_have_text("Dog runs")


@pytest.mark.slow
def test_long_text_wraps_as_pairs_of_lines_on_a_phone(page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator("#text").press_sequentially("Auf der Straße schläft eine Katze.")
    expect(page.locator("#translation")).to_have_text("A cat is sleeping on the street.")
    assert page.locator(".system").count() > 1
    assert overflow(page) <= 0, "nothing sticks out"
    width = page.locator("#gloss").bounding_box()["width"]
    for system in page.locator(".system").all():
        assert system.bounding_box()["width"] <= width


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, pytest.param(390, marks=pytest.mark.slow)])
def test_a_text_too_long_to_explain_is_translated(page, width):
    page.set_viewport_size({"width": width, "height": 900})
    page.locator("#text").fill("Ein Hund läuft. " * 40)
    expect(page.locator("#translation")).to_have_text(("A dog is running. " * 40).strip())
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("#hint")).to_contain_text("too long to show attention weights")
    expect(page.locator("#explanation")).to_be_hidden()
    page.locator("#text").fill("Ein Hund läuft.")
    expect(page.locator("#explanation")).to_be_visible()
