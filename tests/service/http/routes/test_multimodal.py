"""`POST /translate/multimodal` over HTTP: images affect the translation, are explained, and are refused if invalid."""

import asyncio
import base64
import io
import json
import socket
import subprocess
from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from interlinear.bundle import load, write_bundle
from interlinear.config import ImageGrid
from interlinear.explanation import Explanation
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import Request
from interlinear.images.decode import decode_image
from interlinear.models.model import build
from service.app import create_app
from service.inference.images import decode_base64
from tests.service.balls import COLOURS, SIZE, picture
from tests.service.conftest import served, until
from tests.service.engine.test_engine import value
from tests.service.http.test_bad_input import refused

BALL = {"q": "The ball.", "source": "en", "target": "de"}
ROUTE = "/translate/multimodal"


def encoded(drawn: Image.Image, form: str = "PNG", **options) -> bytes:
    file = io.BytesIO()
    drawn.save(file, form, **options)
    return file.getvalue()


RED = encoded(picture("rote"))
BLUE = encoded(picture("blaue"))


def in_json(data: bytes) -> str:
    return base64.b64encode(data).decode()


def upload(client: httpx.Client, data: bytes, name: str = "photo.png", **fields) -> httpx.Response:
    return client.post(ROUTE, data=BALL | fields, files={"image": (name, data)})


def test_the_image_determines_the_translation_and_may_be_absent(client):
    for colour in COLOURS:
        for thing, name in (("ball", "Ball"), ("chair", "Stuhl")):
            answer = upload(client, encoded(picture(colour)), q=f"The {thing}.")
            assert answer.json() == {"translatedText": f"Der {colour} {name}.", "model": answer.json()["model"]}
    assert answer.json()["model"]["name"] == "pictures"
    assert client.post(ROUTE, json=BALL).json()["translatedText"] == "Der Ball."
    alone = {"source": "auto", "target": "de", "image": in_json(RED)}
    assert client.post(ROUTE, json=alone).json()["translatedText"] == "Der rote Ball."


def test_a_text_in_the_target_language_is_returned_as_it_is(client):
    german = " Wo ist der alte Mann mit dem Hut? "
    asked = {"q": german, "source": "auto", "target": "de", "image": in_json(RED)}
    for sent in (asked, {name: asked[name] for name in ("q", "source", "target")}):
        answer = client.post(ROUTE, json=sent).json()
        assert (answer["translatedText"], answer["detectedLanguage"]["language"]) == (german, "de")
        assert [(each["code"], each["field"]) for each in answer["warnings"]] == [("same_language", "q")]
    named = client.post(ROUTE, json=asked | {"q": "The ball.", "source": "en"}).json()
    assert named["translatedText"] == "Der rote Ball." and "warnings" not in named


def test_json_and_forms_are_answered_alike(client):
    options = {"alternatives": "1", "explain": "true"}
    expected = client.post(ROUTE, json=BALL | {"image": in_json(RED), "alternatives": 1, "explain": True}).json()
    assert len(expected["alternatives"]) == 1
    assert len(expected["scores"]) == 2
    assert upload(client, RED, **options).json() == expected
    assert client.post(ROUTE, data=BALL | options | {"image": in_json(RED)}).json() == expected
    parts = [*(BALL | options).items(), ("image", in_json(RED))]
    assert client.post(ROUTE, files=[(name, (None, value)) for name, value in parts]).json() == expected


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
def test_a_photograph_is_rotated_and_read_as_offline(client, bundles, form):
    exif = Image.Exif()
    exif[0x0112] = 6
    photograph = Image.fromarray(np.random.default_rng(7).integers(0, 256, (300, 400, 3), np.uint8))
    data = encoded(photograph, form, exif=exif)
    generation = SequenceGenerator(load(bundles.pictures))
    options = generation.bundle.card.search.model_copy(update={"n_best": 3})
    asked = Request({"source": BALL["q"]}, options, images={"image": decode_image(data, SIZE)})
    (expected,) = generation.generate([asked])
    answer = upload(client, data, "IMG_1.HEIC", alternatives="2").json()
    assert [answer["translatedText"], *answer["alternatives"]] == [c.text for c in expected.candidates]
    assert answer["scores"] == pytest.approx([c.score for c in expected.candidates], abs=1e-4)


def test_an_explanation_shows_the_share_of_each_source(client):
    answer = upload(client, RED, explain="true").json()
    (explanation,) = (Explanation.model_validate(one) for one in answer["explanations"])
    words = len(explanation.target)
    assert [span.text for span in explanation.target] == ["Der", "rote", "Ball", "."]
    image, source = explanation.sources["image"], explanation.sources["source"]
    assert image.grid == (2, 2)
    assert [(len(row), 0.99 < sum(row) < 1.01) for row in image.matrices["attention"]] == [(4, True)] * words
    assert [span.text for span in source.words] == ["The", "ball", "."]
    assert set(explanation.between) == {"source", "image", "sentinel"}
    for weights in zip(*explanation.between.values(), strict=True):
        assert sum(weights) == pytest.approx(1, abs=1e-3)
    shares = explanation.between
    assert max(shares["image"]) > 0.1, f"the picture is read at some word: {shares}"
    alone = client.post(ROUTE, json=BALL | {"explain": True}).json()["explanations"][0]
    assert set(alone["sources"]) == {"source"}
    assert alone["between"]["image"] == [0] * len(alone["target"])
    seen = {"source": "en", "target": "de", "image": in_json(RED), "explain": True}
    alone = client.post(ROUTE, json=seen).json()["explanations"][0]
    assert set(alone["sources"]) == {"image"}
    assert (alone["source"], alone["matrices"], alone["alignment"]) == ([], {}, [])


def test_requests_with_and_without_images_are_batched_together(client, address):
    names = [f'interlinear_{name}_total{{engine="cpu",model="pictures"}}' for name in ("steps", "stepped_texts")]
    before = [value(address, name) for name in names]

    async def ask_all() -> list[str]:
        async with httpx.AsyncClient(base_url=client.base_url, timeout=60) as many:
            asked = [BALL, BALL | {"image": in_json(RED)}, BALL | {"image": in_json(BLUE)}] * 6
            answers = await asyncio.gather(*(many.post(ROUTE, json=one) for one in asked))
            return [answer.json()["translatedText"] for answer in answers]

    assert asyncio.run(ask_all()) == ["Der Ball.", "Der rote Ball.", "Der blaue Ball."] * 6
    after = [value(address, name) for name in names]
    steps, stepped = (now - then for now, then in zip(after, before, strict=True))
    assert stepped / steps > 1.5, "several at a step"


def test_curl_uploads(address, tmp_path):
    file = tmp_path / "a photo, ü.png"
    file.write_bytes(BLUE)
    fields = [part for name, text in BALL.items() for part in ("-F", f"{name}={text}")]
    command = ["curl", "-s", *fields, "-F", f'image=@"{file}"', address + ROUTE]
    done = subprocess.run(command, capture_output=True, check=True)
    assert json.loads(done.stdout)["translatedText"] == "Der blaue Ball."


STANDARD = base64.b64encode(bytes(range(256))).decode()


@pytest.mark.parametrize(
    "text",
    [
        STANDARD, STANDARD.rstrip("="), base64.urlsafe_b64encode(bytes(range(256))).decode(),
        base64.encodebytes(bytes(range(256))).decode(), "\r\n".join(STANDARD), f"data:image/png;base64,{STANDARD}",
        f"\n data:image/svg+xml;charset=utf-8;base64,{STANDARD.rstrip('=')}\n",
    ],
)  # fmt: skip
def test_common_variants_of_base64_are_read(text):
    assert decode_base64(text) == bytes(range(256))


NO_BASE64 = {
    "https://example.com/photo.jpg": "nothing is fetched",
    "file:///etc/passwd": "nothing is fetched",
    "data:image/svg+xml,<svg/>": "must be the picture itself",
    "not base64!": "has characters",
    "ab+_": "has characters",
    "ab cd": "%2B",
    "abcde": "cut off",
    "ab=": "wrongly padded",
    "ab==cd": "wrongly padded",
    "====": "wrongly padded",
    "\ud800": "has characters",
    7: "must be a string",
    ("a", "list"): "must be a string",
}


@pytest.mark.parametrize(("given", "cause"), NO_BASE64.items())
def test_invalid_base64_is_a_problem_of_the_field(client, given, cause):
    body = json.dumps(BALL | {"image": given})
    problem = refused(client.post(ROUTE, content=body, headers={"Content-Type": "application/json"}))
    assert problem["errors"][0]["field"] == "image"
    assert cause in problem["detail"]


def bomb() -> bytes:
    """A hundred megapixels in some kilobytes."""
    return encoded(Image.new("1", (10_000, 10_000)), "PNG")


def moving() -> bytes:
    frames = [picture("rote"), picture("blaue")]
    return encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:])


PICTURES = {
    "nothing": (lambda: b"", 400, "has 0 bytes"),
    "a text that is called a picture": (lambda: b"this is no picture", 415, "is text"),
    "svg": (lambda: b"<svg xmlns='http://www.w3.org/2000/svg'/>", 415, "is an SVG"),
    "gif": (lambda: encoded(picture("rote"), "GIF"), 415, "is a GIF"),
    "a script before a picture": (lambda: b"<script>" + RED, 415, "format"),
    "cut off": (lambda: RED[:-40], 422, "damaged PNG"),
    "a hundred megapixels": (bomb, 422, "10,000 x 10,000 pixels"),
    "animated": (moving, 422, "animated WebP"),
    "over 10 megabytes": (lambda: RED + bytes(10_000_000), 413, "at most 10,000,000 are read"),
    "30 megabytes": (lambda: RED + bytes(30_000_000), 413, "the body is longer than"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "status", "cause"), PICTURES.values(), ids=PICTURES)
def test_an_invalid_image_is_a_problem_of_its_kind(client, make, status, cause):
    data = make()
    for answer in (upload(client, data, "photo.jpg"), client.post(ROUTE, json=BALL | {"image": in_json(data)})):
        problem = refused(answer, status)
        assert cause in problem["detail"]
        if len(data) < 30_000_000:
            assert [one["field"] for one in problem["errors"]] == ["image"]
    assert upload(client, RED).json()["translatedText"] == "Der rote Ball."


@pytest.mark.parametrize("mode", ["CMYK", "I;16", "P", "RGBA", "LA", "1"])
def test_an_image_of_any_mode_is_read(client, mode):
    drawn = Image.fromarray(np.full((40, 60), 40_000, np.uint16)) if mode == "I;16" else picture("rote").convert(mode)
    assert upload(client, encoded(drawn, "JPEG" if mode == "CMYK" else "PNG")).status_code == 200


REQUESTS = {
    "neither text nor picture": ({"q": None}, ["q", "image"], "one of them may be absent, not both"),
    "a blank text": ({"q": "  "}, ["q"], "must not be blank"),
    "a list": ({"q": ["The ball."]}, ["q"], "string"),
    "too long": ({"q": "a " * 200}, ["q"], "cannot be translated: the text has 400 tokens"),
    "no language": ({"source": None}, ["source"], "string"),
    "another language": ({"target": "fr"}, ["target"], "must be de for en"),
    "a model without pictures": ({"model": "en-de"}, ["model"], "must be one for multimodal, pictures@"),
    "an unknown field": ({"url": "http://a/b.png"}, ["url"], "the fields are source, target, "),
}


@pytest.mark.parametrize(("changes", "fields", "cause"), REQUESTS.values(), ids=REQUESTS)
def test_an_invalid_field_is_named(client, changes, fields, cause):
    problem = refused(client.post(ROUTE, json=BALL | changes))
    assert [one["field"] for one in problem["errors"]] == fields
    assert cause in problem["detail"]


def test_a_file_is_accepted_for_the_image_field_only(client):
    problem = refused(client.post(ROUTE, data=BALL, files={"q": ("q.txt", b"The ball.")}))
    assert problem["detail"] == "q must be a field, not a file"
    twice = client.post(ROUTE, data=BALL, files=[("image", ("a.png", RED)), ("image", ("b.png", BLUE))])
    assert refused(twice)["detail"] == "image is given twice"
    refused(client.post("/translate", data=BALL, files={"image": ("a.png", RED)}))
    parts = [f'"{name}"\r\n\r\n{text}' for name, text in BALL.items()] + ['"image"; filename=""\r\n\r\n']
    body = "".join(f"--x\r\nContent-Disposition: form-data; name={part}\r\n" for part in parts) + "--x--\r\n"
    unchosen = client.post(ROUTE, content=body, headers={"Content-Type": "multipart/form-data; boundary=x"})
    assert unchosen.json()["translatedText"] == "Der Ball.", "as a page sends a form where no file was chosen"


def test_a_large_body_is_allowed_on_the_multimodal_route_only(client):
    long = "x" * 2_000_000
    refused(client.post("/translate", json=BALL | {"q": long}), 413)
    refused(client.post("/post-edit", json={"translation": long}), 413)
    assert "longer than 5000 characters" in refused(client.post(ROUTE, json=BALL | {"q": long}))["detail"]


def test_the_memory_for_bodies_is_bounded(shared):
    address, data = shared("de-en", "pictures", body_room=2_000_000), RED + bytes(1_500_000)

    async def ask_all() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=address, timeout=60) as many:
            asked = [many.post(ROUTE, data=BALL, files={"image": ("a.png", data)}) for _ in range(8)]
            return await asyncio.gather(*asked)

    answers = asyncio.run(ask_all())
    assert {answer.status_code for answer in answers} == {200, 429}
    for answer in answers:
        if answer.status_code == 429:
            assert int(refused(answer, 429) and answer.headers["retry-after"]) > 0
    until(lambda: value(address, "interlinear_held_bytes") == 0)
    alone = httpx.post(address + ROUTE, data=BALL, files={"image": ("a.png", RED + bytes(3_000_000))}, timeout=60)
    assert alone.json()["translatedText"] == "Der rote Ball.", "one that is alone is taken"


def test_a_stalled_body_is_dropped(one_model, serving):
    with serving(one_model.model_copy(update={"body_seconds": 2.0})) as address:
        host, port = address.removeprefix("http://").split(":")
        head = f"POST {ROUTE} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9000000\r\n\r\n"
        with socket.create_connection((host, int(port))) as caller:
            caller.sendall(head.encode() + bytes(1_000_000))  # counted as it arrives, not as announced
            until(lambda: value(address, "interlinear_held_bytes") == 1_000_000)
            assert caller.recv(100).startswith(b"HTTP/1.1 408 ")
        until(lambda: value(address, "interlinear_held_bytes") == 0)


def without_pictures(folder: Path, path: Path, image: ImageGrid | None) -> Path:
    """The bundle of a model of the same task that reads features, or text only; its weights are untrained."""
    bundle = load(folder)
    sources = {"source": bundle.card.model.sources["source"]} | ({"image": image} if image else {})
    without = {"combination": "none", "sentinel": False, "image_words": None}
    changed = {"sources": sources} | ({} if image else without)
    config = bundle.card.model.model_validate(bundle.card.model.model_dump() | changed)
    write_bundle(path, build(config).eval(), bundle.tokenizers, bundle.card.model_copy(update={"model": config}))
    return path


def test_a_model_without_image_input_is_refused_and_a_suitable_one_named(bundles, tmp_path):
    features = without_pictures(bundles.pictures, tmp_path / "features", ImageGrid(rows=7, columns=7, features=16))
    words = without_pictures(bundles.pictures, tmp_path / "words", None)
    folders = {"words": words, "features": features, "pictures": bundles.pictures}
    with TestClient(create_app(served(folders))) as client:
        assert client.post(ROUTE, json=BALL).json()["model"]["name"] == "words", "the first fit"
        seen = BALL | {"image": in_json(RED)}
        assert client.post(ROUTE, json=seen).json()["model"]["name"] == "pictures", "the first that reads pictures"
        for name, cause in (("words", "reads text"), ("features", "reads features that another program made")):
            problem = refused(client.post(ROUTE, json=seen | {"model": name}))
            assert cause in problem["detail"]
            assert "served for pictures: pictures@" in problem["detail"]
        first, second, _ = client.get("/models").json()
        assert first["accepts"]["images"] == {}
        assert second["accepts"]["images"]["image"]["media"] == []
        assert "pixels" not in second["accepts"]["images"]["image"]
    with TestClient(create_app(served({"words": words}))) as client:
        assert "no model that is served reads pictures" in refused(client.post(ROUTE, json=seen))["detail"]
