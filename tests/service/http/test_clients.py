"""Clients that were written for LibreTranslate work unchanged."""

import json
import subprocess
import urllib.error

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

CHILD, CHILD_EN = "Im Garten schläft ein Kind.", "A child is sleeping in the garden."


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


def test_weblate_checks_the_languages_and_sends_a_form(address):
    """weblate/machinery/libretranslate.py: a base URL with a slash, an empty key where none is set."""
    codes = [language["code"] for language in httpx.get(f"{address}/languages").json()]
    assert {"de", "en"} <= set(codes)
    for source, target in (("de", "en"), ("de_AT", "en_GB")):  # Weblate's own codes have underscores
        form = {"api_key": "", "q": CHILD, "source": source, "target": target}
        assert httpx.post(f"{address}/translate", data=form).json()["translatedText"] == CHILD_EN


def test_wagtail_localize_sends_the_strings_of_a_page_together(address):
    """wagtail_localize/machine_translators/libretranslate.py: JSON, a list, format html, codes without a region."""
    body = {"q": [CHILD, "Eine Frau sitzt."], "source": "de", "target": "en", "api_key": "any", "format": "html"}
    answer = httpx.post(f"{address}/translate", content=json.dumps(body), headers={"Content-Type": "application/json"})
    answer.raise_for_status()
    assert answer.json()["translatedText"] == [CHILD_EN, "A woman is sitting."]


@pytest.mark.parametrize(("source", "key"), [("de", None), (None, None), ("auto", ""), ("de", "any")])
def test_mastodon_sends_the_parts_of_a_post_and_reads_a_detection_of_each(address, source, key):
    """app/lib/translation_service/libre_translate.rb: JSON with a list, html, and null for a key that is not set."""
    targets = {language["code"]: language["targets"] for language in httpx.get(f"{address}/languages").json()}
    assert targets == {"de": ["de", "en"], "en": ["de", "en"]}
    parts = [f"<p>{CHILD}</p>", "Eine Frau sitzt.", ""]
    body = {"q": parts, "source": source or "auto", "target": "en", "format": "html", "api_key": key}
    answer = httpx.post(f"{address}/translate", json=body).json()
    assert answer["translatedText"] == [f"<p>{CHILD_EN}</p>", "A woman is sitting.", ""]
    if source != "de":
        assert answer["detectedLanguage"][0]["language"] == "de" and len(answer["detectedLanguage"]) == len(parts)


def test_mastodon_s_status_with_tags_and_custom_emoji(address):
    status = [
        "<p>Ein Hund läuft.</p><p>Eine Frau sitzt.<br />Ein Mann läuft.</p>",
        'Ein Kind spielt. <span translate="no">:wuff:</span>',
    ]
    body = {"q": status, "source": "de", "target": "en", "format": "html", "api_key": None}
    assert httpx.post(f"{address}/translate", json=body).json()["translatedText"] == [
        "<p>A dog is running.</p><p>A woman is sitting.<br />A man is running.</p>",
        'A child is playing. <span translate="no">:wuff:</span>',
    ]


@pytest.mark.parametrize("target", ["en", "en_US", "en_GB"])
def test_discourse_encodes_a_form_and_reads_the_first_detection(address, target):
    """discourse-translator, libre_translate.rb: `URI.encode_www_form` with the key last, also if it is empty."""
    detected = httpx.post(f"{address}/detect", data={"q": CHILD, "api_key": ""}).json()[0]["language"]
    assert detected == "de"
    form = {"q": CHILD, "source": detected, "target": target, "format": "html", "api_key": ""}
    assert httpx.post(f"{address}/translate", data=form).json()["translatedText"] == CHILD_EN


def test_discourse_translates_a_post(address):
    post = "<p>Im Garten schläft ein Kind.</p>\n<p>Ein Mann läuft.</p>"
    form = {"q": post, "source": "de", "target": "en", "format": "html", "api_key": ""}
    answer = httpx.post(f"{address}/translate", data=form)
    assert answer.json()["translatedText"] == "<p>A child is sleeping in the garden.</p>\n<p>A man is running.</p>"


@pytest.mark.parametrize(("body", "status"), [({"target": "iw"}, 400), ({"q": ""}, 400), ({"format": "xml+"}, 400)])
def test_errors_are_json_with_a_sentence(address, body, status):
    """Discourse and Weblate show `error` to the administrator."""
    sent = {"q": CHILD, "source": "de", "target": "en", "format": "html"} | body
    answer = httpx.post(f"{address}/translate", json=sent)
    assert answer.status_code == status
    assert isinstance(answer.json()["error"], str)
    assert answer.json()["error"]
