"""Decode image files to pixels of one size, after checks that protect the decoder.

The bytes are untrusted. Only JPEG, PNG and WebP are decoded. The decoder is chosen by the first bytes, and runs only
after the header was checked for the number of pixels and for animation.
"""

import io
import re
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from interlinear.config import ImageGrid
from interlinear.errors import ImageError, RequestError

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = (".jpg", ".jpeg", ".png", ".webp")  # of files in the supported formats
MAX_BYTES = 10_000_000
MAX_PIXELS = 25_000_000
MAX_SCANS = 100  # a progressive JPEG has about 10; decoding a scan visits all pixels, but a scan may have only 4 bytes
MAX_SEGMENTS = 1000  # of a JPEG before its first scan; a colour profile and long metadata take some hundred
MAX_PADDING = 1000  # bytes between segments; a normal JPEG has none or a few
MAX_CHUNKS = 10_000  # of a PNG, whose pixels are usually in chunks of 8 KB or more
FILL = re.compile(rb"\xff+")  # fill bytes; the last one is the first byte of a marker
MARKER = re.compile(rb"\xff[^\0\xd0-\xd7]")  # within a scan, 0xff followed by 0 or a restart marker is no segment
ORIENTATION = 0x0112  # EXIF tag of the camera's orientation

Format = Literal["JPEG", "PNG", "WebP"]


class Header(NamedTuple):
    """Properties from an image's header, read before decoding."""

    width: int
    height: int
    animated: bool


def decode_image(
    data: bytes,
    size: int,
    where: str = "image",
    max_bytes: int = MAX_BYTES,
    max_pixels: int = MAX_PIXELS,
) -> np.ndarray:
    """Decode an image to RGB pixels, uint8 (size, size, 3).

    The image is rotated by its EXIF orientation, resized to `size` x `size` with antialiasing regardless of its aspect
    ratio, and composed over white where it is transparent. The two limits bound the memory: decoding takes 16 bytes a
    pixel for WebP, 8 for the others. Raises ImageError for any bytes that cannot be decoded.
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
        image = open_image(form, data)
        if image.size != (header.width, header.height):  # no pixel is decoded yet
            raise ValueError(f"of {header.width:,} x {header.height:,} and {image.width:,} x {image.height:,} pixels")
        return to_pixels(image, size)
    except Exception as error:  # decoders raise OSError, SyntaxError, RuntimeError, ZeroDivisionError, ...
        raise damaged_image(where, form, error) from None


def damaged_image(where: str, form: Format, error: Exception) -> ImageError:
    reason = " ".join(str(error).split()) or type(error).__name__
    return ImageError(where, f"is a damaged {form} ({reason})", "send it whole", "damaged")


def detect_format(data: bytes) -> Format | None:
    """The format by the first bytes; None if it is not supported."""
    if data.startswith(b"\xff\xd8\xff"):
        return "JPEG"
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "PNG"
    return "WebP" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None


def describe_format(data: bytes) -> str:
    """The likely format of unsupported bytes, for an error message."""
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
    """Read the size from the frame header (ITU T.81, B.2.2), skipping the segments before it.

    Raises ValueError without a frame header, or with more scans, segments or fill bytes than the limits allow: Pillow
    processes them one by one.
    """
    offset, padding, header = 2, 0, None
    for _ in range(MAX_SEGMENTS):
        fill = FILL.search(data, offset)
        if fill is None or (fill.start() > offset and header is None):
            raise ValueError("no frame header" if header is None else "no scan")
        last = fill.end() - 1
        padding += last - offset
        if padding > MAX_PADDING:
            raise ValueError(f"more than {MAX_PADDING:,} bytes between its segments")
        marker, offset = data[last + 1], last + 2
        if marker == 0xDA and header:
            check_scans(data, offset, padding)
            return header
        if header and (marker <= 0x01 or 0xD0 <= marker <= 0xD9):  # markers without a length
            continue
        (length,) = struct.unpack_from(">H", data, offset)
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            if header:  # Pillow would use the size in the second one
                raise ValueError("two frame headers")
            height, width = struct.unpack_from(">HH", data, offset + 3)
            header = Header(width, height, False)
        elif marker < 0xC0 or marker in (0xD9, 0xDA) or length < 2:
            raise ValueError("no frame header" if header is None else "a segment without a length")
        offset += length
    raise ValueError(f"more than {MAX_SEGMENTS:,} segments")


def check_scans(data: bytes, offset: int, padding: int) -> None:
    """Check a JPEG from its first scan, whose marker ends at `at`, to its end marker; ignores the bytes after it.

    Raises ValueError for more scans, segments or fill bytes than the limits allow.
    """
    scans = 1
    for _ in range(MAX_SEGMENTS):
        (length,) = struct.unpack_from(">H", data, offset)
        offset += length
        while True:
            match = MARKER.search(data, offset)
            if match is None:
                return  # truncated: the decoder reports it
            fill = FILL.match(data, match.start())
            assert fill
            padding += len(fill[0]) - 1
            if padding > MAX_PADDING:
                raise ValueError(f"more than {MAX_PADDING:,} bytes between its segments")
            offset = fill.end() + 1
            marker = data[offset - 1] if offset <= len(data) else 0
            if marker > 0x01 and not 0xD0 <= marker <= 0xD7:
                break
        if marker == 0xD9:
            return
        scans += marker == 0xDA
        if scans > MAX_SCANS:
            raise ValueError(f"more than {MAX_SCANS} scans")
    raise ValueError(f"more than {MAX_SEGMENTS:,} segments")


def png_header(data: bytes) -> Header:
    """Read the size from the first chunk, and the number of frames of an APNG from the chunks before the pixels.

    Raises ValueError for a missing header chunk, several colour profiles, or more than MAX_CHUNKS chunks: Pillow reads
    them one by one, and decompresses the profiles.
    """
    width, height = struct.unpack_from(">II", data, 16)
    if data[12:16] != b"IHDR":
        raise ValueError("no IHDR")
    offset, animated, chunks, profiles, before_pixels, kind = 8, 1, 0, 0, True, b""
    while offset + 12 <= len(data) and kind != b"IEND":
        kind = data[offset + 4 : offset + 8]
        before_pixels = before_pixels and kind != b"IDAT"
        if before_pixels and kind == b"acTL":
            animated = struct.unpack_from(">I", data, offset + 8)[0]
        chunks += 1
        profiles += kind == b"iCCP"
        if profiles > 1:
            raise ValueError("several colour profiles")
        if chunks > MAX_CHUNKS:
            raise ValueError(f"more than {MAX_CHUNKS:,} chunks")
        offset += 12 + struct.unpack_from(">I", data, offset)[0]
    return Header(width, height, animated > 1)


def webp_header(data: bytes) -> Header:
    """Read the size from the first chunk, VP8X, VP8L or VP8 (RFC 9649). Raises ValueError for another chunk."""
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = (1 + int.from_bytes(data[offset : offset + 3], "little") for offset in (24, 27))
        return Header(width, height, bool(data[20] & 0b10))
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return Header(1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF), False)
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return Header(width & 0x3FFF, height & 0x3FFF, False)
    raise ValueError("no picture in it")


def open_image(form: Format, data: bytes) -> "Image.Image":
    """Open an image with the decoder of its format. Of a JPEG with several images (as phones make), opens the first."""
    from PIL import Image, JpegImagePlugin, PngImagePlugin, WebPImagePlugin

    decoders: dict[Format, Callable[[io.BytesIO], Image.Image]] = {
        "JPEG": JpegImagePlugin.JpegImageFile,
        "PNG": PngImagePlugin.PngImageFile,
        "WebP": WebPImagePlugin.WebPImageFile,
    }
    return decoders[form](io.BytesIO(data))


def to_pixels(image: "Image.Image", size: int) -> np.ndarray:
    """Decode, resize, and only then convert to RGB, so that the large image is processed once."""
    from PIL import Image

    image.draft(None, (2 * size, 2 * size))  # decodes a much larger JPEG at 1/8, 1/4 or 1/2
    image.load()
    transposition = TRANSPOSITIONS.get(orientation(image))
    image = to_eight_bits(image)
    if "transparency" in image.info:
        image = image.convert("RGBA")
    elif image.mode not in ("L", "LA", "RGB", "RGBA", "CMYK"):
        image = image.convert("RGBA" if image.mode in ("PA", "La", "RGBa") else "RGB")
    image = image.resize((size, size), Image.Resampling.BICUBIC, reducing_gap=3.0)
    if image.mode in ("LA", "RGBA"):
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    image = image.convert("RGB")
    if transposition is not None:  # rotating the small square is cheaper than the original
        image = image.transpose(Image.Transpose(transposition))
    return np.array(image)


# EXIF orientation to the Pillow operation (Image.Transpose) that corrects it.
TRANSPOSITIONS = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}


def orientation(image: "Image.Image") -> int:
    """The EXIF orientation; 1 (upright) if it is missing or unreadable, which is no reason to reject an image."""
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # of damaged EXIF: struct.error, SyntaxError, TypeError, ...
        return 1


def to_eight_bits(image: "Image.Image") -> "Image.Image":
    """Convert a 16-bit greyscale image to 8 bits; others are unchanged. Pillow's conversion clips values at 255."""
    from PIL import Image

    if not image.mode.startswith("I"):
        return image
    grey = np.asarray(image)
    converted = Image.fromarray((grey >> 8).astype(np.uint8))
    if (transparent := image.info.get("transparency")) is not None:
        converted.putalpha(Image.fromarray(np.where(grey == transparent, 0, 255).astype(np.uint8)))
    return converted


def read_image(grid: ImageGrid, data: bytes, where: str = "image") -> np.ndarray:
    """Decode an image file's bytes to the pixels that a model reads.

    Raises ImageError for an invalid image, RequestError for a model without network, which reads only features.
    """
    if grid.network is None:
        raise RequestError(
            where, f"the model has no network for pixels: it reads {grid}", "give it features made by the same network"
        )
    return decode_image(data, grid.network.size, where)


def blank_image(grid: ImageGrid) -> np.ndarray:
    """An image of zeros with the shape and dtype that a model reads."""
    if grid.network is None:
        return np.zeros((grid.regions, grid.features), np.float32)
    return np.zeros((grid.network.size, grid.network.size, 3), np.uint8)


def check_image_shape(name: str, image: np.ndarray, grid: ImageGrid) -> None:
    """Raise RequestError for an image whose shape or dtype is not what the model reads."""
    expected = blank_image(grid)
    if (image.shape, image.dtype) != (expected.shape, expected.dtype):
        shape = " x ".join(map(str, image.shape))
        raise RequestError(name, f"the image is {shape} of {image.dtype}, and the model reads {grid}")
