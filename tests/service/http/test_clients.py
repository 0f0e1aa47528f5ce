"""Clients that were written for LibreTranslate work unchanged."""

import json
import subprocess
import urllib.error

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI


def test_libretranslatepy(address):
    client = LibreTranslateAPI(address, api_key="any")
    assert client.translate("Im Garten schläft ein Kind.", "de", "en") == "A child is sleeping in the garden."
    assert client.translate("Ein Mann läuft.", "auto", "en") == "A man is running."
    assert client.detect("Wo ist der Hund?")[0]["language"] == "de"
    assert [language["code"] for language in client.languages()] == ["de", "en"]
    with pytest.raises(urllib.error.HTTPError) as error:
        client.translate("Ein Hund.", "de", "xx")
    assert "xx" in json.loads(error.value.read())["error"]


@pytest.mark.parametrize("flag", ["-d", "-F", "--data-urlencode"])
def test_curl(address, flag):
    fields = [part for field in ("q=Ein Hund läuft.", "source=de", "target=en") for part in (flag, field)]
    done = subprocess.run(["curl", "-s", *fields, f"{address}/translate"], capture_output=True, check=True)
    assert json.loads(done.stdout)["translatedText"] == "A dog is running."


# Mastodon (app/lib/translation_service/libre_translate.rb): JSON with a list of HTML, the key null if none is set; a
# status is a list of its content, its warning, its poll's options and its media's descriptions.


def mastodon(address: str, texts: list[str], source: str = "de", key: str | None = None) -> httpx.Response:
    body = {"q": texts, "source": source, "target": "en", "format": "html", "api_key": key}
    return httpx.post(f"{address}/translate", content=json.dumps(body), headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("key", [None, "", "any"])
def test_mastodon_s_texts_without_tags(address, key):
    options = ["Eine Frau sitzt.", "Ein Mann läuft.", ""]
    data = mastodon(address, options, key=key).json()
    assert data["translatedText"] == ["A woman is sitting.", "A man is running.", ""]
    unknown = mastodon(address, options[:2], "auto").json()  # a status without a language
    assert unknown["translatedText"] == data["translatedText"][:2]
    assert [found["language"] for found in unknown["detectedLanguage"]] == ["de", "de"]


def test_mastodon_reads_the_languages_with_their_targets(address):
    languages = {language["code"]: set(language["targets"]) for language in httpx.get(f"{address}/languages").json()}
    assert languages == {"de": {"en"}, "en": {"de"}}


def test_mastodon_s_status_with_tags_and_custom_emoji(address):
    status = [
        "<p>Ein Hund läuft.</p><p>Eine Frau sitzt.<br />Ein Mann läuft.</p>",
        'Ein Kind spielt. <span translate="no">:wuff:</span>',
    ]
    assert mastodon(address, status).json()["translatedText"] == [
        "<p>A dog is running.</p><p>A woman is sitting.<br />A man is running.</p>",
        'A child is playing. <span translate="no">:wuff:</span>',
    ]


# Discourse (discourse-translator, libre_translate.rb): forms, with an empty key where none is set.


def discourse(address: str, path: str, **fields: str) -> httpx.Response:
    return httpx.post(f"{address}{path}", data={**fields, "api_key": ""})


def test_discourse_translates_a_topic_s_title(address):
    title = "Im Garten schläft ein Kind."
    detected = discourse(address, "/detect", q=title)
    language = detected.json()[0]["language"]
    known = {one["code"] for one in httpx.get(f"{address}/languages").json()}
    assert {language, "en"} <= known
    answer = discourse(address, "/translate", q=title, source=language, target="en", format="html")
    assert (answer.status_code, answer.json()["translatedText"]) == (200, "A child is sleeping in the garden.")


def test_discourse_translates_a_post(address):
    post = "<p>Im Garten schläft ein Kind.</p>\n<p>Ein Mann läuft.</p>"
    answer = discourse(address, "/translate", q=post, source="de", target="en", format="html")
    assert answer.json()["translatedText"] == "<p>A child is sleeping in the garden.</p>\n<p>A man is running.</p>"
