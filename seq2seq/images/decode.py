"""A picture from its bytes: checked before it is decoded, then brought to pixels of one size.

The bytes are anybody's. Nothing but JPEG, PNG and WebP is handed to a decoder, which is chosen by what the bytes begin
with, and only after their own header has said that the picture is small enough and one picture.
"""

import io
import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from seq2seq.errors import ImageError

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")  # of files that hold what is decoded here
MAX_BYTES = 10_000_000
MAX_PIXELS = 25_000_000
MAX_SCANS = 100  # of a progressive JPEG, which has about 10: each goes over all pixels, and may take four bytes
MAX_SEGMENTS = 1000  # of a JPEG before its first scan; one with a colour profile and long metadata has some hundred
MAX_PADDING = 1000  # bytes between those, where a picture has none or a few
MAX_CHUNKS = 10_000  # of a PNG, whose pixels come in chunks of 8 KB or longer
FILL = re.compile(rb"\xff+")  # the last byte of it begins a marker
MARKER = re.compile(rb"\xff[^\0\xd0-\xd7]")  # within a scan 0xff is followed by 0, or restarts it
ORIENTATION = 0x0112  # EXIF's number for how the camera was held

Format = Literal["JPEG", "PNG", "WebP"]


class Header(NamedTuple):
    """What a picture says of itself before it is decoded."""

    width: int
    height: int
    animated: bool  # whether it moves


def decode_image(
    data: bytes,
    size: int,
    where: str = "image",
    max_bytes: int = MAX_BYTES,
    max_pixels: int = MAX_PIXELS,
) -> np.ndarray:
    """A picture's pixels, uint8 (size, size, 3), red, green, blue.

    It is turned as its EXIF orientation says, brought to `size` x `size` with antialiasing whatever its shape was, and
    laid over white where it is transparent. Memory is bounded by the two limits: a WebP
    takes 16 bytes a pixel while it is decoded, the others 8.
    Raises ImageError, whatever the bytes.
    """
    if not data:
        raise ImageError(where, "has 0 bytes", "send a JPEG, PNG or WebP", "empty")
    if len(data) > max_bytes:
        problem = f"has {len(data):,} bytes, and at most {max_bytes:,} are read"
        raise ImageError(where, problem, "send a smaller picture", "bytes")
    form = detect_format(data)
    if form is None:
        raise ImageError(
            where, f"is {describe_format(data)}, not a picture that is read", "send a JPEG, PNG or WebP", "format"
        )
    try:
        header = {"JPEG": jpeg_header, "PNG": png_header, "WebP": webp_header}[form](data)
    except (struct.error, IndexError, ValueError) as error:
        raise damaged_image(where, form, error) from None
    if header.width * header.height > max_pixels:
        problem = f"has {header.width:,} x {header.height:,} pixels, and at most {max_pixels:,} are read"
        raise ImageError(where, problem, "send a smaller picture", "pixels")
    if header.animated:
        raise ImageError(where, f"is an animated {form}", "send one still picture", "animated")
    try:
        return to_pixels(open_image(form, data), size)
    except Exception as error:  # a decoder raises what it likes: OSError, SyntaxError, RuntimeError, ZeroDivisionError
        raise damaged_image(where, form, error) from None


def damaged_image(where: str, form: Format, error: Exception) -> ImageError:
    said = " ".join(str(error).split()) or type(error).__name__
    return ImageError(where, f"is a damaged {form} ({said})", "send it whole", "damaged")


def detect_format(data: bytes) -> Format | None:
    """The format by the first bytes, whatever the name; None for all that is not read."""
    if data.startswith(b"\xff\xd8\xff"):
        return "JPEG"
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "PNG"
    return "WebP" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def describe_format(data: bytes) -> str:
    """What bytes that are not read may be, for the one who sent them."""
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "a GIF"
    if data[4:12] in (b"ftypheic", b"ftypheix", b"ftypmif1", b"ftypavif"):
        return "a HEIF or AVIF"
    if data.startswith((b"II*\0", b"MM\0*")):
        return "a TIFF"
    start = data[:1000].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith(b"<svg") or (start.startswith((b"<?xml", b"<!doctype")) and b"<svg" in start):
        return "an SVG"
    try:
        data[:1000].decode("ascii")
    except UnicodeDecodeError:
        return "of a format that is not known"
    return "text"


def jpeg_header(data: bytes) -> Header:
    """Size from the frame header (ITU T.81, B.2.2), the segments before it skipped. Raises ValueError for no frame, and
    for more scans, segments or bytes between them than a picture has: Pillow goes over these one by one."""
    at, padding, header = 2, 0, None
    for _ in range(MAX_SEGMENTS):
        begins = FILL.search(data, at)
        if begins is None or (begins.start() > at and header is None):
            raise ValueError("no frame header" if header is None else "no scan")
        last = begins.end() - 1
        padding += last - at
        if padding > MAX_PADDING:
            raise ValueError(f"more than {MAX_PADDING:,} bytes between its segments")
        marker, at = data[last + 1], last + 2
        if marker == 0xDA and header:
            check_scans(data, at, padding)
            return header
        if header and (marker <= 0x01 or 0xD0 <= marker <= 0xD9):  # without a length
            continue
        (length,) = struct.unpack_from(">H", data, at)
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            if header:  # of which Pillow would take the second one's size
                raise ValueError("two frame headers")
            height, width = struct.unpack_from(">HH", data, at + 3)
            header = Header(width, height, False)
        elif marker < 0xC0 or marker in (0xD9, 0xDA) or length < 2:
            raise ValueError("no frame header" if header is None else "a segment without a length")
        at += length
    raise ValueError(f"more than {MAX_SEGMENTS:,} segments")


def check_scans(data: bytes, at: int, padding: int) -> None:
    """Go over a JPEG from its first scan, whose marker ends at `at`, to its end; what follows is no part of it. Raises
    ValueError for more scans, segments or bytes between them than a picture has."""
    scans = 1
    for _ in range(MAX_SEGMENTS):
        (length,) = struct.unpack_from(">H", data, at)
        at += length
        while True:
            found = MARKER.search(data, at)
            if found is None:
                return  # it is cut off, as its decoder will say
            fill = FILL.match(data, found.start())
            assert fill
            padding += len(fill[0]) - 1
            if padding > MAX_PADDING:
                raise ValueError(f"more than {MAX_PADDING:,} bytes between its segments")
            at = fill.end() + 1
            marker = data[at - 1] if at <= len(data) else 0
            if marker > 0x01 and not 0xD0 <= marker <= 0xD7:
                break
        if marker == 0xD9:
            return
        scans += marker == 0xDA
        if scans > MAX_SCANS:
            raise ValueError(f"more than {MAX_SCANS} scans")
    raise ValueError(f"more than {MAX_SEGMENTS:,} segments")


def png_header(data: bytes) -> Header:
    """Size from the first chunk; an APNG says before its pixels how many frames it has. Raises ValueError, also for
    more chunks, or compressed colour profiles, than a picture has: Pillow reads them one by one."""
    width, height = struct.unpack_from(">II", data, 16)
    if data[12:16] != b"IHDR":
        raise ValueError("no IHDR")
    at, animated, chunks, profiles, before, kind = 8, 1, 0, 0, True, b""
    while at + 12 <= len(data) and kind != b"IEND":
        kind = data[at + 4 : at + 8]
        before = before and kind != b"IDAT"
        if before and kind == b"acTL":
            animated = struct.unpack_from(">I", data, at + 8)[0]
        chunks += 1
        profiles += kind == b"iCCP"
        if profiles > 1:
            raise ValueError("several colour profiles")
        if chunks > MAX_CHUNKS:
            raise ValueError(f"more than {MAX_CHUNKS:,} chunks")
        at += 12 + struct.unpack_from(">I", data, at)[0]
    return Header(width, height, animated > 1)


def webp_header(data: bytes) -> Header:
    """Size from the first chunk of its three kinds (RFC 9649). Raises ValueError."""
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = (1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
        return Header(width, height, bool(data[20] & 0b10))
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return Header(1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF), False)
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return Header(width & 0x3FFF, height & 0x3FFF, False)
    raise ValueError("no picture in it")


def open_image(form: Format, data: bytes) -> "Image.Image":
    """The picture by its format's own decoder; a JPEG that carries further pictures (as phones make) by its first."""
    from PIL import Image, JpegImagePlugin, PngImagePlugin, WebPImagePlugin

    decoders: dict[Format, Callable[[io.BytesIO], Image.Image]] = {
        "JPEG": JpegImagePlugin.JpegImageFile,
        "PNG": PngImagePlugin.PngImageFile,
        "WebP": WebPImagePlugin.WebPImageFile,
    }
    return decoders[form](io.BytesIO(data))


def to_pixels(picture: "Image.Image", size: int) -> np.ndarray:
    """Decoded, made small, then made RGB: the large picture is gone over once."""
    from PIL import Image

    picture.draft(None, (2 * size, 2 * size))  # a JPEG many times as large is decoded in an eighth, quarter or half
    picture.load()
    turn = TRANSPOSITIONS.get(orientation(picture))
    picture = to_eight_bits(picture)
    if "transparency" in picture.info:
        picture = picture.convert("RGBA")
    elif picture.mode not in ("L", "LA", "RGB", "RGBA", "CMYK"):
        picture = picture.convert("RGBA" if picture.mode in ("PA", "La", "RGBa") else "RGB")
    picture = picture.resize((size, size), Image.Resampling.BICUBIC, reducing_gap=3.0)
    if picture.mode in ("LA", "RGBA"):
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    picture = picture.convert("RGB")
    if turn is not None:  # a square stays one, so that it may be turned at the end
        picture = picture.transpose(Image.Transpose(turn))
    return np.array(picture)


# EXIF's orientations, and Pillow's operation (Image.Transpose) that undoes each.
TRANSPOSITIONS = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}


def orientation(picture: "Image.Image") -> int:
    """EXIF's orientation; 1, upright, where there is none or it cannot be read: no reason to refuse a picture."""
    try:
        return int(picture.getexif().get(ORIENTATION, 1))
    except Exception:  # of damaged EXIF: struct.error, SyntaxError, TypeError, ...
        return 1


def to_eight_bits(picture: "Image.Image") -> "Image.Image":
    """A picture of 16 bits of grey in 8; Pillow would cut off what is above 255. Others as they are."""
    from PIL import Image

    if not picture.mode.startswith("I"):
        return picture
    grey = np.asarray(picture)
    small = Image.fromarray((grey >> 8).astype(np.uint8))
    if (seen_through := picture.info.get("transparency")) is not None:
        small.putalpha(Image.fromarray(np.where(grey == seen_through, 0, 255).astype(np.uint8)))
    return small
