"""Decoding of images: each mode gives the same pixels, each bad input one kind of error, memory is bounded."""

import io
import json
import pickle
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from interlinear.errors import ImageError, RequestError
from interlinear.images.decode import MAX_BYTES, decode_image

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def quarters(size: int = 32) -> np.ndarray:
    """Red, green / blue, white: all rotations and reflections differ."""
    half = size // 2
    picture = np.zeros((size, size, 3), np.uint8)
    picture[:half, :half], picture[:half, half:] = RED, GREEN
    picture[half:, :half], picture[half:, half:] = BLUE, WHITE
    return picture


def saved(picture: Image.Image | np.ndarray, form: str = "PNG", **options: object) -> bytes:
    file = io.BytesIO()
    image = Image.fromarray(picture) if isinstance(picture, np.ndarray) else picture
    image.save(file, form, **options)
    return file.getvalue()


def refused(data: bytes, **limits: int) -> ImageError:
    with pytest.raises(ImageError) as caught:
        decode_image(data, 16, "photo.jpg", **limits)
    assert str(caught.value).startswith("photo.jpg: ")
    return caught.value


# Images that are read


def test_pixels_of_the_right_size_are_unchanged():
    for form, options in (("PNG", {}), ("WebP", {"lossless": True, "exact": True})):
        got = decode_image(saved(quarters(), form, **options), 32)
        assert got.dtype == np.uint8
        np.testing.assert_array_equal(got, quarters())


def close(got: np.ndarray, expected: tuple[int, int, int], by: int = 6) -> bool:
    return bool((np.abs(got.astype(int) - expected) <= by).all())


@pytest.mark.parametrize(
    ("mode", "form"),
    [("RGB", "JPEG"), ("CMYK", "JPEG"), ("P", "PNG"), ("RGBA", "PNG"), ("RGB", "WebP"), ("RGBA", "WebP")],
)
def test_every_colour_mode_gives_the_same_pixels(mode: str, form: str):
    data = saved(Image.fromarray(quarters(64)).convert(mode), form, quality=95)
    got = decode_image(data, 32)
    for (row, column), colour in {(6, 6): RED, (6, 25): GREEN, (25, 6): BLUE, (25, 25): WHITE}.items():
        assert close(got[row, column], colour), (mode, form, got[row, column])


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WebP"])
def test_grey_is_grey_in_each_colour(form: str):
    got = decode_image(saved(Image.new("L", (40, 20), 90), form), 16)
    assert close(got, (90, 90, 90), by=1)


def test_sixteen_bit_grey_loses_the_lower_eight_bits():
    grey = np.tile(np.linspace(0, 65535, 16).astype(np.uint16), (16, 1))
    np.testing.assert_array_equal(decode_image(saved(grey), 16)[0, :, 0], grey[0] >> 8)


def test_one_bit_per_pixel():
    black = Image.fromarray(np.tile([True, False], (16, 8)))
    assert black.mode == "1"
    assert decode_image(saved(black), 16)[0, :4, 1].tolist() == [255, 0, 255, 0]


def test_transparent_pixels_are_white():
    clear = np.zeros((20, 20, 4), np.uint8)  # black, but fully transparent
    clear[:, 10:] = (255, 0, 0, 255)
    clear[:, :4, 3] = 128
    for form in ("PNG", "WebP"):
        got = decode_image(saved(clear, form, **({"lossless": True, "exact": True} if form == "WebP" else {})), 20)
        assert close(got[5, 7], WHITE, by=0)
        assert close(got[5, 1], (127, 127, 127), by=1)
        assert close(got[5, 15], RED, by=0)
    palette = Image.new("P", (20, 20), 1)
    palette.putpalette([0, 0, 0, 9, 9, 9])
    assert close(decode_image(saved(palette, transparency=1), 8), WHITE, by=0)
    assert close(decode_image(saved(Image.new("LA", (20, 20), (0, 0))), 8), WHITE, by=0)
    assert close(decode_image(saved(np.full((8, 8), 700, np.uint16), transparency=700), 8), WHITE, by=0)


def test_a_transparent_neighbour_adds_no_colour_when_an_image_shrinks():
    """Resized first, then composed over white, the hidden black must not darken the edge."""
    picture = np.zeros((64, 64, 4), np.uint8)
    picture[:, 32:] = (255, 0, 0, 255)
    got = decode_image(saved(picture), 8)
    assert (got[:, :, 0] == 255).all()


def test_images_are_resized_with_antialiasing():
    stripes = np.tile(np.array([0, 255], np.uint8), (100, 200))
    got = decode_image(saved(stripes), 16)
    assert got.shape == (16, 16, 3)
    assert close(got, (127, 127, 127), by=2)
    wide = np.zeros((50, 400, 3), np.uint8)
    wide[:, 200:] = WHITE
    got = decode_image(saved(wide), 10)
    assert close(got[:, :4], (0, 0, 0)) and close(got[:, 6:], WHITE)


# EXIF 2.3, tag 274: the side of the visible image where the stored image's first row, and its first column, lies.
SIDES = {
    1: ("top", "left"), 2: ("top", "right"), 3: ("bottom", "right"), 4: ("bottom", "left"),
    5: ("left", "top"), 6: ("right", "top"), 7: ("right", "bottom"), 8: ("left", "bottom"),
}  # fmt: skip


def stored(seen: np.ndarray, orientation: int) -> np.ndarray:
    """The image as a camera in that orientation stores it, pixel by pixel."""
    n = len(seen)
    place = {
        "top": lambda i: ("row", i), "bottom": lambda i: ("row", n - 1 - i),
        "left": lambda i: ("column", i), "right": lambda i: ("column", n - 1 - i),
    }  # fmt: skip
    picture = np.zeros_like(seen)
    for i in range(n):
        for j in range(n):
            first, second = (place[side](k) for side, k in zip(SIDES[orientation], (i, j), strict=True))
            at = dict([first, second])
            picture[i, j] = seen[at["row"], at["column"]]
    return picture


@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_rotated_by_their_exif_orientation(orientation: int):
    exif = Image.Exif()
    exif[0x0112] = orientation
    picture = stored(quarters(), orientation)
    np.testing.assert_array_equal(decode_image(saved(picture, exif=exif), 32), quarters())
    np.testing.assert_array_equal(decode_image(saved(picture, "WebP", exif=exif, lossless=True), 32), quarters())
    difference = (
        decode_image(saved(picture, "JPEG", exif=exif, quality=100, subsampling=0), 32).astype(int) - quarters()
    )
    assert np.abs(difference).max() <= 4


def test_unreadable_exif_leaves_the_image_unrotated():
    for exif in (b"Exif\0\0nonsense", b"Exif\0\0II*\0\xff\xff\xff\xff", b""):
        segment = b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif
        data = saved(quarters(), "JPEG", quality=95)
        assert close(decode_image(data[:2] + segment + data[2:], 32)[6, 6], RED)


def test_a_polyglot_file_is_read_as_the_image_that_it_begins_with():
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("evil.html", "<script>alert(1)</script>")
    for form in ("JPEG", "PNG", "WebP"):
        data = saved(quarters(), form)
        np.testing.assert_array_equal(
            decode_image(data + bytes(1_000_000) + archive.getvalue(), 32), decode_image(data, 32)
        )
    assert refused(b"<html><!--" + saved(quarters(), "JPEG")).kind == "format"
    assert refused(b"GIF89a" + saved(quarters(), "JPEG")).kind == "format"


def test_a_phone_photograph_with_a_second_image_is_read_as_its_first():
    file = io.BytesIO()
    Image.fromarray(quarters()).save(file, "MPO", save_all=True, append_images=[Image.new("RGB", (8, 8))], quality=95)
    assert close(decode_image(file.getvalue(), 32)[6, 6], RED)


# Images that are refused


def test_empty_input():
    error = refused(b"")
    assert (error.kind, str(error)) == ("empty", "photo.jpg: has 0 bytes. Send a JPEG, PNG or WebP.")
    assert isinstance(error, RequestError)


def test_too_many_bytes_are_refused_unread():
    error = refused(b"\xff\xd8\xff" + bytes(30_000_000))
    assert (error.kind, error.problem) == ("bytes", "has 30,000,003 bytes, and at most 10,000,000 are read")
    assert refused(saved(quarters()), max_bytes=10).kind == "bytes"


@pytest.mark.parametrize(
    ("data", "is_"),
    [
        (b"This is no picture.\n", "text"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "an SVG"),
        (b"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- x -->\n<svg/>", "an SVG"),
        (saved(quarters(), "GIF"), "a GIF"),
        (saved(Image.fromarray(quarters()), "GIF", save_all=True, append_images=[Image.new("RGB", (32, 32))]), "a GIF"),
        (saved(quarters(), "TIFF"), "a TIFF"),
        (saved(quarters(), "BMP"), "of a format that is not known"),
        (b"%PDF-1.7\n%\xe2\xe3", "of a format that is not known"),
        (b"\x00\x00\x00\x18ftypheic", "a HEIF or AVIF"),
        (b"\xff", "of a format that is not known"),
        (b"RIFF\0\0\0\0AVI ", "text"),
    ],
)
def test_unsupported_formats_are_named(data: bytes, is_: str):
    error = refused(data)
    assert (error.kind, error.problem) == ("format", f"is {is_}, not a picture that is read")


def chunk(name: bytes, data: bytes = b"") -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png_size(width: int, height: int) -> bytes:
    """The header chunk of a PNG with one bit per pixel."""
    return chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0))


def blank_png(width: int, height: int) -> bytes:
    """A white image with one bit per pixel: a hundred megapixels in some kilobytes."""
    line = b"\0" + b"\xff" * -(-width // 8)
    packer = zlib.compressobj(9)
    rows = b"".join([*(packer.compress(line) for _ in range(height)), packer.flush()])
    return b"\x89PNG\r\n\x1a\n" + png_size(width, height) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def resized_header(data: bytes, width: int, height: int) -> bytes:
    """A JPEG whose frame header declares another size."""
    at = data.index(b"\xff\xc0") + 5
    return data[:at] + struct.pack(">HH", height, width) + data[at + 4 :]


def test_too_many_pixels_are_refused_without_decoding():
    bomb = blank_png(10_000, 10_000)
    assert len(bomb) < 50_000
    error = refused(bomb)
    assert (error.kind, error.problem) == ("pixels", "has 10,000 x 10,000 pixels, and at most 25,000,000 are read")
    assert refused(resized_header(saved(quarters(), "JPEG"), 60_000, 60_000)).kind == "pixels"
    extended = b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0" + 2 * (16_000).to_bytes(3, "little")
    lossless = b"RIFF\x1e\0\0\0WEBPVP8L\x0a\0\0\0\x2f" + struct.pack("<I", 16_000 | 16_000 << 14) + bytes(8)
    lossy = b"RIFF\x1e\0\0\0WEBPVP8 \x0a\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 16_000, 16_000) + bytes(8)
    for data in (extended, lossless, lossy):
        assert refused(data).kind == "pixels"
    assert refused(saved(quarters()), max_pixels=1023).kind == "pixels"
    assert decode_image(saved(quarters()), 32, max_pixels=1024).shape == (32, 32, 3)


def test_animations_are_refused():
    more = [Image.new("RGB", (32, 32), colour) for colour in ("red", "blue")]
    for form in ("PNG", "WebP"):
        error = refused(saved(Image.fromarray(quarters()), form, save_all=True, append_images=more))
        assert (error.kind, error.problem) == ("animated", f"is an animated {form}")


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WebP"])
def test_truncated_images_are_damaged(form: str):
    random = np.random.default_rng(3).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    data = saved(random, form, **({"lossless": True} if form == "WebP" else {}))
    for end in (3, 8, 12, 20, 40, len(data) // 2, len(data) - 100):
        error = refused(data[:end])
        assert error.kind in ("damaged", "format")
        if end >= 12:
            assert error.problem.startswith(f"is a damaged {form} (")


def test_a_jpeg_with_endless_scans_is_not_decoded():
    data = saved(quarters(), "JPEG", progressive=True)
    at = data.index(b"\xff\xda")
    error = refused(data[:at] + data[at:-2] * 30 + b"\xff\xd9")
    assert error.kind == "damaged" and "scans" in error.problem
    assert decode_image(data, 32).shape == (32, 32, 3)


def test_scans_behind_a_false_end_marker_are_counted():
    data = saved(quarters(), "JPEG", progressive=True)
    at = data.index(b"\xff\xda")
    scans = b"\xff\xfe\0\x04\xff\xd9" + data[at:-2] * 30
    assert "scans" in refused(data[:-2] + scans + b"\xff\xd9").problem


def test_bytes_after_a_jpeg_are_ignored():
    """Phones append a video there, which can be any bytes."""
    data = saved(quarters(), "JPEG")
    np.testing.assert_array_equal(decode_image(data + b"\xff\xda\xff\xff" * 1000, 32), decode_image(data, 32))


PROFILE = b"a\0\0" + zlib.compress(bytes(1_000_000), 9)  # a thousand bytes that a decoder expands to a million


def flooded() -> dict[str, tuple[bytes, str]]:
    """Images that a decoder has to read one byte or one segment at a time, and the error of each."""
    jpeg, png = saved(quarters(), "JPEG"), saved(quarters(), "PNG")
    scan, data = jpeg.index(b"\xff\xda"), png.index(b"IDAT") - 4
    before = {"fill bytes": (b"\xff", "bytes between"), "comments": (b"\xff\xfe\x00\x02", "segments")}
    after = before | {"junk": (b"\0", "bytes between"), "escapes": (b"\xff\0", "segments")}
    return {
        **{f"JPEG, {name} first": (jpeg[:2] + b * 20_000 + jpeg[2:], said) for name, (b, said) in before.items()},
        **{f"JPEG, {name}": (jpeg[:scan] + b * 20_000 + jpeg[scan:], said) for name, (b, said) in after.items()},
        "JPEG, fill bytes last": (jpeg[:-2] + b"\xff" * 20_000 + jpeg[-2:], "bytes between"),
        "JPEG, fill bytes that are none": (jpeg[:-2] + b"\xff\xff\0" * 20_000 + jpeg[-2:], "bytes between"),
        "JPEG, comments last": (jpeg[:-2] + b"\xff\xfe\0\x04\xff\xd9" * 20_000 + jpeg[-2:], "segments"),
        "PNG, chunks first": (png[:33] + chunk(b"aaAa") * 20_000 + png[33:], "chunks"),
        "PNG, empty pixels": (png[:data] + chunk(b"IDAT") * 20_000 + png[data:], "chunks"),
        "PNG, colour profiles": (png[:33] + chunk(b"iCCP", PROFILE) * 100 + png[33:], "colour profiles"),
        "PNG, colour profiles last": (png[:-12] + chunk(b"iCCP", PROFILE) * 100 + png[-12:], "colour profiles"),
        "PNG, chunks last": (png[:-12] + chunk(b"aaAa") * 20_000 + png[-12:], "chunks"),
    }


@pytest.mark.parametrize(("data", "said"), flooded().values(), ids=flooded())
def test_an_image_with_endless_segments_is_not_decoded(data: bytes, said: str):
    error = refused(data)
    assert error.kind == "damaged" and said in error.problem


def test_a_second_frame_header_does_not_change_the_size():
    data = saved(quarters(), "JPEG")
    frame, scan = data.index(b"\xff\xc0"), data.index(b"\xff\xda")
    (length,) = struct.unpack_from(">H", data, frame + 2)
    larger = data[frame : frame + 5] + struct.pack(">HH", 30_000, 30_000) + data[frame + 9 : frame + 2 + length]
    assert "frame header" in refused(data[:scan] + larger + data[scan:]).problem


def two_sizes(width: int, height: int) -> dict[str, bytes]:
    """Images of a size that a quick reader takes for 8 x 8."""
    png, jpeg = blank_png(width, height), saved(Image.new("L", (width, height)), "JPEG")
    webp = saved(Image.new("L", (width, height)), "WebP", lossless=True)
    frame, table = jpeg.index(b"\xff\xc0"), jpeg.index(b"\xff\xc4")
    small = resized_header(jpeg, 8, 8)[frame:table]
    hidden = b"\xff\xd0" + struct.pack(">H", 2 + table - frame) + jpeg[frame:table]
    comment = b"\xff\xd0" + struct.pack(">H", 6) + b"\xff\xfe" + struct.pack(">H", 2 + len(small)) + small
    size = (7).to_bytes(3, "little")
    extended = b"RIFF" + struct.pack("<I", len(webp) + 10) + b"WEBPVP8X\x0a" + bytes(7) + size + size + webp[12:]
    return {
        "PNG, a second header": png[:8] + png_size(8, 8) + png[8:],
        "PNG, a later header": png[:8] + png_size(8, 8) + chunk(b"tEXt", b"a\0b") + png[8:],
        "JPEG, a header behind a restart marker, another in a comment": jpeg[:frame] + hidden + comment + jpeg[table:],
        "WebP, a canvas that is smaller than its picture": extended,
    }


@pytest.mark.parametrize(("name", "data"), two_sizes(600, 400).items(), ids=two_sizes(600, 400))
def test_an_image_of_another_size_than_was_checked_is_not_decoded(name: str, data: bytes):
    for limits in ({}, {"max_pixels": 64}):
        error = refused(data, **limits)
        assert error.kind == "damaged", (name, str(error))


def test_one_colour_profile_is_skipped():
    png = saved(quarters())
    np.testing.assert_array_equal(
        decode_image(png[:33] + chunk(b"iCCP", PROFILE) + png[33:], 32), decode_image(png, 32)
    )


def test_a_few_bytes_between_segments_are_not_damage():
    jpeg, scan = saved(quarters(), "JPEG"), saved(quarters(), "JPEG").index(b"\xff\xda")
    for padded in (jpeg[:2] + b"\xff" * 9 + jpeg[2:], jpeg[:scan] + b"\0\0\xff\0\xff\xff" + jpeg[scan:]):
        np.testing.assert_array_equal(decode_image(padded, 32), decode_image(jpeg, 32))


def test_an_image_error_can_be_pickled():
    error = pickle.loads(pickle.dumps(refused(b"")))
    assert (error.kind, str(error)) == ("empty", str(refused(b"")))


SEEDS = [
    saved(quarters(), "JPEG"), saved(quarters(), "JPEG", progressive=True), saved(quarters(), "PNG"),
    saved(Image.fromarray(quarters()).convert("P"), "PNG"), saved(quarters(), "WebP"),
    saved(quarters(), "WebP", lossless=True),
]  # fmt: skip


@given(st.binary(max_size=200), st.sampled_from([b"", b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"RIFF\0\0\0\0WEBPVP8X"]))
@settings(max_examples=300)
def test_random_bytes_are_pixels_or_an_image_error(data: bytes, start: bytes):
    try:
        assert decode_image(start + data, 8).shape == (8, 8, 3)
    except ImageError as error:
        assert error.kind in ("empty", "format", "pixels", "animated", "damaged")


@given(st.sampled_from(SEEDS), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=8), st.floats(0, 1))
@settings(max_examples=400)
def test_changed_bytes_are_pixels_or_an_image_error(seed: bytes, changes: list[tuple[float, int]], cut: float):
    data = bytearray(seed)
    for place, value in changes:
        data[int(place * (len(data) - 1))] = value
    try:
        assert decode_image(bytes(data[: int(cut * len(data)) + 1]), 8).shape == (8, 8, 3)
    except ImageError as error:
        assert error.kind in ("format", "pixels", "animated", "damaged")


PEAK = r"""
import json, re, sys
from pathlib import Path
from PIL import JpegImagePlugin, PngImagePlugin, WebPImagePlugin
from interlinear.errors import ImageError
from interlinear.images.decode import decode_image

peak = lambda: int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024
data = [Path(name).read_bytes() for name in sys.argv[1:]]
before, kinds = peak(), []
for each in data:
    try:
        decode_image(each, 128)
        kinds.append("")
    except ImageError as error:
        kinds.append(error.kind)
print(json.dumps([kinds, peak() - before]))
"""


@pytest.mark.slow
def test_memory_is_bounded(tmp_path: Path):
    """The largest images that are read, of the widest modes, and four decompression bombs: 16 bytes a pixel are enough
    for each."""
    huge = blank_png(40_000, 40_000)
    files = {
        "large.png": saved(Image.new("RGBA", (5000, 5000), (9, 9, 9, 99))),
        "large.jpg": saved(Image.new("CMYK", (5000, 5000)), "JPEG", progressive=True),
        "large.webp": saved(Image.new("RGBA", (5000, 5000), (9, 9, 9, 99)), "WebP", quality=0, method=0),
        "bomb.png": blank_png(60_000, 60_000),
        "bomb.jpg": resized_header(saved(quarters(), "JPEG"), 65_000, 65_000),
        "bytes.jpg": saved(quarters(), "JPEG") + bytes(30_000_000),
        "header.png": huge[:8] + png_size(8, 8) + huge[8:],
    }
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    assert len(files["large.png"]) < MAX_BYTES
    ran = subprocess.run(
        [sys.executable, "-c", PEAK, *(str(tmp_path / name) for name in files)],
        check=True, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    kinds, grown = json.loads(ran.stdout)
    assert kinds == ["", "", "", "pixels", "pixels", "bytes", "damaged"]
    assert grown < 16 * 25_000_000 / 2**20 + 50, grown
