"""The pictures of the demo: things drawn by the shapes of drawings.yaml, at places of a grid.

Everything is computed here, from sums and products alone, so that a picture has the same pixels on every machine;
pillow only writes them down.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from pydantic import model_validator

from training.demo.lexicon import Record, read

Pixels = npt.NDArray[np.uint8]
Plane = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Colour = tuple[int, int, int]
Box = tuple[int, int, int, int]

PLACE = 32  # pixels of a place's side
SIDE = 3  # places of a picture's side
SIZE = PLACE * SIDE
FINER = 4  # points of a pixel's side, whose mean it is
UNIT = 100.0  # the side of the square that shapes are written in


class Shape(Record):
    """A part of a drawing: one form, and what it is filled with."""

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


class Drawings(Record):
    """What drawings.yaml says."""

    palette: dict[str, Colour]
    backgrounds: list[Colour]
    sizes: dict[str, int]
    drawings: dict[str, list[Shape]]

    def colourable(self, name: str) -> bool:
        """Whether a thing can be given a colour."""
        return any(shape.fill == "own" for shape in self.drawings[name])


@lru_cache(maxsize=1)
def drawings() -> Drawings:
    return Drawings.model_validate(read("drawings.yaml"))


@dataclass(frozen=True)
class Thing:
    """Something drawn: what, in which colour of the palette where it can have any, how large, and where (pixels)."""

    name: str
    size: int
    left: int
    top: int
    colour: str | None = None
    mirrored: bool = False

    @property
    def box(self) -> Box:
        """The smallest rectangle around what is drawn: left, top, and just behind it right, bottom."""
        _, cover = drawn(self.name, self.size, self.colour, self.mirrored)
        rows, columns = np.nonzero(cover.any(axis=1))[0], np.nonzero(cover.any(axis=0))[0]
        return (
            self.left + int(columns[0]),
            self.top + int(rows[0]),
            self.left + int(columns[-1]) + 1,
            self.top + int(rows[-1]) + 1,
        )


@dataclass(frozen=True)
class Picture:
    """A background, and things before it."""

    background: Colour
    things: tuple[Thing, ...]

    def pixels(self) -> Pixels:
        """RGB, (SIZE, SIZE, 3)."""
        canvas = np.empty((SIZE, SIZE, 3))
        canvas[:] = self.background
        for thing in self.things:
            colour, cover = drawn(thing.name, thing.size, thing.colour, thing.mirrored)
            under = canvas[thing.top : thing.top + thing.size, thing.left : thing.left + thing.size]
            under *= 1 - cover[..., None]
            under += colour
        return np.floor(canvas + 0.5).astype(np.uint8)

    def png(self) -> bytes:
        from PIL import Image

        written = io.BytesIO()
        Image.fromarray(self.pixels()).save(written, "PNG", compress_level=1)
        return written.getvalue()


@lru_cache(maxsize=4096)
def drawn(name: str, size: int, colour: str | None, mirrored: bool) -> tuple[Plane, Plane]:
    """A thing's colours times how much of each pixel they cover, (size, size, 3), and that cover, (size, size)."""
    fine = size * FINER
    at = (np.arange(fine) + 0.5) * UNIT / fine
    x, y = np.meshgrid(at, at)
    colours, cover = np.zeros((fine, fine, 3)), np.zeros((fine, fine))
    for shape in drawings().drawings[name]:
        inside = within(shape, x, y)
        if shape.fill == "clear":
            colours[inside], cover[inside] = 0, 0
            continue
        fill = colour if shape.fill == "own" else shape.fill
        if fill is None:
            raise ValueError(f"{name} is drawn in a colour that is its own, and was given none")
        colours[inside], cover[inside] = drawings().palette[fill], 1
    whole = colours.reshape(size, FINER, size, FINER, 3).mean(axis=(1, 3))
    covered = cover.reshape(size, FINER, size, FINER).mean(axis=(1, 3))
    return (whole[:, ::-1], covered[:, ::-1]) if mirrored else (whole, covered)


def within(shape: Shape, x: Plane, y: Plane) -> Mask:
    """Which points lie in a shape."""
    if shape.ellipse is not None:
        middle_x, middle_y, half_x, half_y = shape.ellipse
        return ((x - middle_x) / half_x) ** 2 + ((y - middle_y) / half_y) ** 2 <= 1
    if shape.box is not None:
        left, top, right, bottom = shape.box
        return (x >= left) & (x <= right) & (y >= top) & (y <= bottom)
    if shape.polygon is not None:
        corners = points(shape.polygon)
        return accumulated(
            np.logical_xor,
            [crossed(x, y, a, b) for a, b in zip(corners, [*corners[1:], corners[0]], strict=True)],
        )
    assert shape.line is not None and shape.width is not None
    path = points(shape.line)
    return accumulated(np.logical_or, [near(x, y, a, b, shape.width / 2) for a, b in pairwise(path)])


def points(numbers: Sequence[float]) -> list[tuple[float, float]]:
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def accumulated(join: Callable[[Mask, Mask], Mask], masks: Sequence[Mask]) -> Mask:
    whole = masks[0]
    for mask in masks[1:]:
        whole = join(whole, mask)
    return whole


def crossed(x: Plane, y: Plane, a: tuple[float, float], b: tuple[float, float]) -> Mask:
    """Which points' rays to the right cross the edge a-b: inside is what crosses an odd number of them."""
    (ax, ay), (bx, by) = a, b
    if ay == by:
        return np.zeros(x.shape, bool)
    crossing: Mask = ((y > ay) != (y > by)) & (x < ax + (y - ay) * (bx - ax) / (by - ay))
    return crossing


def near(x: Plane, y: Plane, a: tuple[float, float], b: tuple[float, float], distance: float) -> Mask:
    """Which points are no farther than this from the line a-b."""
    (ax, ay), (bx, by) = a, b
    along = np.clip(((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2), 0, 1)
    away: Plane = (x - ax - along * (bx - ax)) ** 2 + (y - ay - along * (by - ay)) ** 2
    return away <= distance**2
