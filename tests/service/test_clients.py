"""Clients that were written for LibreTranslate work unchanged."""

import json
import subprocess
import urllib.error

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
