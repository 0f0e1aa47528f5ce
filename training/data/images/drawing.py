"""Images drawn from descriptions of scenes: objects, made of the shapes of drawings.yaml, on a background.

Pixels are computed here, by sums and products alone, so that they are the same on every machine; pillow only encodes
them.
"""

import io
from collections.abc import Sequence
from functools import lru_cache, reduce
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
import yaml
from pydantic import Field, model_validator

from training.data.dataset.description import StrictModel

Pixels = npt.NDArray[np.uint8]
Plane = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Colour = tuple[int, int, int]

SIZE = 96  # side of an image, in pixels
OVERSAMPLING = 4  # points per side of a pixel, whose colours are averaged
UNIT = 100.0  # side of the square in whose coordinates shapes are given


class Shape(StrictModel):
    """A part of a drawing: one geometric form and its fill."""

    ellipse: tuple[float, float, float, float] | None = None
    box: tuple[float, float, float, float] | None = None
    polygon: list[float] | None = None
    line: list[float] | None = None
    width: float | None = None
    fill: str

    @model_validator(mode="after")
    def has_one_form(self) -> "Shape":
        forms = [form for form in (self.ellipse, self.box, self.polygon, self.line) if form is not None]
        if len(forms) != 1 or (self.line is None) != (self.width is None) or len(forms[0]) % 2:
            raise ValueError("a shape is one of ellipse, box, polygon and line (which has a width)")
        return self


class Drawings(StrictModel):
    """The content of drawings.yaml."""

    palette: dict[str, Colour]
    drawings: dict[str, list[Shape]]

    def colourable(self, name: str) -> bool:
        """Whether an object has parts whose colour can be chosen."""
        return any(shape.fill == "own" for shape in self.drawings[name])


@lru_cache(maxsize=1)
def drawings() -> Drawings:
    path = Path(__file__).with_name("drawings.yaml")
    return Drawings.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))


class DrawnObject(StrictModel):
    """An object in an image: its drawing's name, size and position in pixels, and the palette's name of its colour if
    that can be chosen."""

    name: str
    size: int = Field(ge=1)
    left: int = Field(ge=0)
    top: int = Field(ge=0)
    colour: str | None = None
    mirrored: bool = False

    @model_validator(mode="after")
    def can_be_drawn(self) -> "DrawnObject":
        if self.name not in drawings().drawings:
            raise ValueError(f"there is no drawing of '{self.name}'")
        if drawings().colourable(self.name) != (self.colour in drawings().palette):
            raise ValueError(f"'{self.name}' has a colour of the palette exactly if a part of it has its own colour")
        if max(self.left, self.top) + self.size > SIZE:
            raise ValueError(f"'{self.name}' is not inside the {SIZE} x {SIZE} pixels")
        return self


class SceneImage(StrictModel):
    """A background colour and the objects drawn over it."""

    background: Colour
    objects: tuple[DrawnObject, ...]

    def pixels(self) -> Pixels:
        """RGB values, (SIZE, SIZE, 3)."""
        canvas = np.empty((SIZE, SIZE, 3))
        canvas[:] = self.background
        for each in self.objects:
            colour, cover = render(each.name, each.size, each.colour, each.mirrored)
            area = canvas[each.top : each.top + each.size, each.left : each.left + each.size]
            area *= 1 - cover[..., None]
            area += colour
        return np.floor(canvas + 0.5).astype(np.uint8)

    def png(self) -> bytes:
        """The image as a PNG file."""
        from PIL import Image

        file = io.BytesIO()
        Image.fromarray(self.pixels()).save(file, "PNG", compress_level=1)
        return file.getvalue()


@lru_cache(maxsize=4096)
def render(name: str, size: int, colour: str | None, mirrored: bool) -> tuple[Plane, Plane]:
    """An object's colours multiplied by its coverage of each pixel, (size, size, 3), and the coverage, (size, size)."""
    fine = size * OVERSAMPLING
    coordinates = (np.arange(fine) + 0.5) * UNIT / fine
    x, y = np.meshgrid(coordinates, coordinates)
    colours, cover = np.zeros((fine, fine, 3)), np.zeros((fine, fine))
    for shape in drawings().drawings[name]:
        inside = is_inside(shape, x, y)
        if shape.fill == "clear":
            colours[inside], cover[inside] = 0, 0
            continue
        fill = colour if shape.fill == "own" else shape.fill
        assert fill is not None, f"{name} needs a colour"
        colours[inside], cover[inside] = drawings().palette[fill], 1
    colours = colours.reshape(size, OVERSAMPLING, size, OVERSAMPLING, 3).mean(axis=(1, 3))
    cover = cover.reshape(size, OVERSAMPLING, size, OVERSAMPLING).mean(axis=(1, 3))
    return (colours[:, ::-1], cover[:, ::-1]) if mirrored else (colours, cover)


def is_inside(shape: Shape, x: Plane, y: Plane) -> Mask:
    """Which of the points (x, y) are inside a shape."""
    if shape.ellipse is not None:
        centre_x, centre_y, radius_x, radius_y = shape.ellipse
        return ((x - centre_x) / radius_x) ** 2 + ((y - centre_y) / radius_y) ** 2 <= 1
    if shape.box is not None:
        left, top, right, bottom = shape.box
        return (x >= left) & (x <= right) & (y >= top) & (y <= bottom)
    if shape.polygon is not None:
        corners = points(shape.polygon)
        crossings = [ray_crosses(x, y, a, b) for a, b in zip(corners, [*corners[1:], corners[0]], strict=True)]
        return reduce(np.logical_xor, crossings)  # inside: the ray crosses an odd number of edges
    assert shape.line is not None and shape.width is not None
    path = points(shape.line)
    return reduce(np.logical_or, [is_near(x, y, a, b, shape.width / 2) for a, b in pairwise(path)])


def points(numbers: Sequence[float]) -> list[tuple[float, float]]:
    """The points (x, y) of a flat list of coordinates."""
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def ray_crosses(x: Plane, y: Plane, a: tuple[float, float], b: tuple[float, float]) -> Mask:
    """Whether the ray from each point (x, y) to the right crosses the edge a-b."""
    (ax, ay), (bx, by) = a, b
    if ay == by:
        return np.zeros(x.shape, bool)
    crossing: Mask = ((y > ay) != (y > by)) & (x < ax + (y - ay) * (bx - ax) / (by - ay))
    return crossing


def is_near(x: Plane, y: Plane, a: tuple[float, float], b: tuple[float, float], distance: float) -> Mask:
    """Which of the points (x, y) are within `distance` of the segment a-b."""
    (ax, ay), (bx, by) = a, b
    position = np.clip(((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2), 0, 1)
    squared: Plane = (x - ax - position * (bx - ax)) ** 2 + (y - ay - position * (by - ay)) ** 2
    return squared <= distance**2
