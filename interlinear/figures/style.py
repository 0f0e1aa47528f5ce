"""Style shared by all figures and the playground: colours, page layout, and file output.

The unit is a pixel of the playground at 100 per inch, from the upper left corner; raster files have twice as many.
"""

from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from xml.etree import ElementTree as ET

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.text import Text

from interlinear.errors import UsageError
from interlinear.figures.fonts import PLAIN, font_families, printable

Colour = str | tuple[float, float, float]

# Colours of the light theme of service/playground/style.css; a test checks that they agree.
PAPER, SHEET, INK, SOFT, LINE = "#faf8f4", "#ffffff", "#1d1f23", "#636871", "#e4e0d8"
HOT, WARM = (15, 110, 110), (168, 77, 25)
FAINTEST = 0.04  # opacity of weight 0, so that the grid stays visible

# Series colours differ in hue and lightness for all kinds of colour vision; markers and dashes differ too.
SERIES = ("#0f6e6e", "#a84d19", "#2e2f8c", "#cba83d", "#ac6dd6", "#3fc5c1", "#8fc479", INK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "h")
DASHES = ((), (5.0, 2.0), (1.5, 1.5), (7.0, 2.0, 1.5, 2.0), (3.0, 1.5), (9.0, 2.5), (1.0, 3.0), (4.0, 1.0, 1.0, 1.0))

UNITS_PER_INCH, DOTS_PER_INCH = 100, 200
MARGIN, PADDING, HEADING = 28, 24, 26
SUFFIXES = (".png", ".svg", ".pdf")
SVG = "http://www.w3.org/2000/svg"
NAMESPACES = {"": SVG, "xlink": "http://www.w3.org/1999/xlink", "cc": "http://creativecommons.org/ns#"}


def check_suffix(path: Path) -> None:
    """Raises UsageError if the file suffix is not .png, .svg or .pdf."""
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(str(path), "a picture is a .png, .svg or .pdf file", "give a name that ends in one of these")


def tint(weight: float, colour: tuple[int, int, int] = HOT) -> tuple[float, float, float]:
    """Colour (red, green, blue) of a weight from 0 to 1 on the white sheet."""
    opacity = FAINTEST + (1 - FAINTEST) * min(max(weight, 0.0), 1.0)
    red, green, blue = (1 - opacity + opacity * channel / 255 for channel in colour)
    return red, green, blue


class Sheet:
    """A figure under construction: create and measure the texts, lay out the sheet for them, then draw on it."""

    def __init__(self, texts: Iterable[str], font: Path | None = None) -> None:
        """`texts`: all texts of the figure, to select fonts. `font`: as in `font_families`, whose errors are raised."""
        texts = list(map(printable, texts))
        self.words = font_families(texts, font)
        self.plain = font_families(texts, font, first=PLAIN)
        self.figure: Figure = Figure(dpi=DOTS_PER_INCH)  # the dpi at which texts are measured
        self.width = self.height = 0.0
        self.heading = ""

    def word(self, text: str, language: str | None = None, size: float = 9.5, rotation: int = 0) -> Text:
        """Creates an unplaced text for a word; `language` selects language-specific glyph forms."""
        # No mathtext: dollar signs are literal.
        return self.figure.text(
            0, 0, printable(text), family=self.words, size=size, color=SOFT, rotation=rotation, parse_math=False,
            language=language, linespacing=1.0,
        )  # fmt: skip

    def note(self, text: str, size: float = 7, colour: Colour = SOFT) -> Text:
        """Creates an unplaced annotation, such as a number or a legend text."""
        return self.figure.text(0, 0, printable(text), family=self.plain, size=size, color=colour, parse_math=False)

    def lay_out(self, heading: str, width: float, height: float) -> tuple[float, float]:
        """Draws background, heading and white sheet for content of this size; returns the content's top left corner."""
        self.width, self.height = width + 2 * (MARGIN + PADDING), height + 2 * (MARGIN + PADDING) + HEADING
        self.figure.set_size_inches(self.width / UNITS_PER_INCH, self.height / UNITS_PER_INCH)
        self.figure.set_facecolor(PAPER)
        self.figure.add_axes((0, 0, 1, 1), xlim=(0, self.width), ylim=(self.height, 0)).set_axis_off()
        self.heading = heading
        title = self.note(heading.upper(), size=8)
        title.set(family=PLAIN, weight="bold")
        self.place(title, MARGIN, MARGIN, "left", "top")
        self.rounded(
            MARGIN, MARGIN + HEADING, self.width - 2 * MARGIN, self.height - 2 * MARGIN - HEADING, SHEET, 10, LINE
        )
        return MARGIN + PADDING, MARGIN + HEADING + PADDING

    def place(self, text: Text, x: float, y: float, horizontal: str, vertical: str = "middle") -> None:
        """Places a text. "middle" centres lower-case letters on y, so that words in a row share a baseline."""
        if vertical == "middle":
            y, vertical = y + 0.34 * float(text.get_fontsize()) * UNITS_PER_INCH / 72, "baseline"
        text.set(
            x=x / self.width, y=1 - y / self.height, horizontalalignment=horizontal, verticalalignment=vertical,
            rotation_mode="default",
        )  # fmt: skip

    def rounded(
        self, x: float, y: float, width: float, height: float, fill: Colour, radius: float, edge: Colour = "none"
    ) -> FancyBboxPatch:
        """Draws a filled rectangle with rounded corners."""
        style = f"round,pad=0,rounding_size={radius}"
        patch = FancyBboxPatch((x, y), width, height, style, fc=fill, ec=edge, linewidth=0.7)
        self.figure.axes[0].add_patch(patch)
        return patch

    def chart(self, x: float, y: float, width: float, height: float) -> Axes:
        """Creates axes in an area of the sheet, with light horizontal grid lines and no frame except the x axis."""
        axes = self.figure.add_axes(
            (x / self.width, 1 - (y + height) / self.height, width / self.width, height / self.height)
        )
        axes.patch.set_alpha(0)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        axes.spines["bottom"].set_color(LINE)
        axes.grid(axis="y", color=LINE, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(colors=SOFT, length=0, pad=5, labelsize=7.5, labelfontfamily=self.plain)
        return axes

    def save(self, path: Path) -> Path:
        """Writes the file and creates a missing folder. Output is deterministic, byte for byte. Returns `path`."""
        check_suffix(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix.lower() == ".svg":
            path.write_bytes(self.svg())
        else:
            metadata: dict[str, str | None] = {"CreationDate": None} if path.suffix.lower() == ".pdf" else {}
            self.figure.savefig(path, metadata=metadata | {"Title": self.heading})
        return path

    def svg(self) -> bytes:
        """The figure as SVG. Letters are paths, so that the viewer needs no font; an invisible text layer on top can be
        searched, copied and read by screen readers."""
        documents = {}
        for font_type in ("path", "none"):
            with rc_context({"svg.fonttype": font_type, "svg.hashsalt": "interlinear"}):
                self.figure.savefig(file := BytesIO(), format="svg", metadata={"Date": None, "Title": self.heading})
            documents[font_type] = ET.fromstring(file.getvalue())
        for prefix, name in NAMESPACES.items():
            ET.register_namespace(prefix, name)
        text_layer = ET.SubElement(documents["path"], f"{{{SVG}}}g", opacity="0")
        for group in documents["none"].iter(f"{{{SVG}}}g"):
            lines = group.findall(f"{{{SVG}}}text")
            if len(lines) > 1 and all(len(line.text or "") == 1 for line in lines):  # a word that is written vertically
                lines[0].text = "".join(line.text or "" for line in lines)
                lines = lines[:1]
            text_layer.extend(lines)
        content: bytes = ET.tostring(documents["path"], encoding="utf-8", xml_declaration=True)
        return content


def readable_on(colour: tuple[float, float, float]) -> str:
    """Dark or white text colour, whichever has more contrast on `colour` (WCAG)."""
    background, ink, white = (luminance(other) for other in (colour, to_rgb(INK), to_rgb(SHEET)))
    return SHEET if (white + 0.05) / (background + 0.05) > (background + 0.05) / (ink + 0.05) else INK


def luminance(colour: tuple[float, float, float]) -> float:
    """Relative luminance of an sRGB colour (WCAG)."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def width_of(text: Text) -> float:
    """Width of a text in figure units."""
    return float(text.get_window_extent().width) * UNITS_PER_INCH / DOTS_PER_INCH


def height_of(text: Text) -> float:
    """Height of a text in figure units."""
    return float(text.get_window_extent().height) * UNITS_PER_INCH / DOTS_PER_INCH
