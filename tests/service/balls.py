"""Images with information that their captions lack: the colour of a ball."""

from PIL import Image, ImageDraw

COLOURS = {
    "rote": (214, 40, 40),
    "blaue": (40, 70, 220),
    "grüne": (30, 160, 60),
    "gelbe": (240, 210, 30),
}
CORNERS = ((0, 0), (0, 1), (1, 0), (1, 1))
SIZE = 32  # pixels a side; the small network makes 2 x 2 regions of them


def picture(colour: str, corner: tuple[int, int] = (0, 0), size: int = SIZE) -> Image.Image:
    """A ball in one of four corners."""
    drawn = Image.new("RGB", (size, size), "white")
    top, left = (place * size // 2 + size // 10 for place in corner)
    ImageDraw.Draw(drawn).ellipse([left, top, left + size // 3, top + size // 3], fill=COLOURS[colour])
    return drawn
