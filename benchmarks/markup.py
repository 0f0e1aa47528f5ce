"""Do documents keep their tags, whatever order the words are translated in, and what does it cost?

    python -m benchmarks.markup [--data FOLDER] [--fragments N] [--save]

Random HTML fragments (well-formed ones, and the same with tags lost, doubled and crossed), and the segments of
localization-xml in FOLDER. Every text is translated by moving its words, so that the links are known: backwards, and at
random. Counted: documents whose written tags are balanced, and are those of the parsed document, each as often.
Measured: milliseconds to parse, and to write with all translations, for each kilobyte of the source.
"""

import argparse
import gzip
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

from benchmarks.reporting import Report, table_number
from documents import AlignedText, Document, parse_html, parse_xml
from documents.events import Event, Start
from documents.html.elements import VOID
from documents.html.tree import read_html
from documents.xml import read_tokens
from seq2seq.text.segmentation import word_spans

Order = Callable[[list[int]], list[int]]  # the indices of words, in the order of the translation

INLINE = ("b", "i", "em", "a", "span", "u", "sub", "x-tag", "label", "abbr")
BLOCK = ("p", "div", "li", "td", "h2", "blockquote", "section", "dt", "figcaption")
MARKS = ("<br>", "<br />", "<img src=x alt='Ein Bild'>", "<wbr>", "<!-- note -->", "<input placeholder=Name>")
WHOLE = (
    "<code>x &lt; y</code>", "<span translate=no>Nein  nein</span>", "<script>var a='da'</script>",
    "<svg><path/></svg>",
    "<pre>\n\n a  b</pre>", "<button title='Zu'>Knopf <b>da</b></button>", "<span class=notranslate>:x:</span>",
    "<table><tr><td>Eins<td>zwei</table>", "<ul><li>Eins<li>zwei</ul>", "<select><option>Eins</select>",
)  # fmt: skip
WORDS = "Ein Hund läuft, nicht der Kater; 12 % &amp; mehr &nbsp; &lt; über allem — 犬が走る Straße.".split(" ")
ATTRIBUTES = ("", "", " class=c", ' title="Ein Titel"', " data-x='1 &amp; 2'", " hidden")

NOTES = (
    "*Well-formed*: every written end tag closes the element that was opened last. *Same tags*: the written start tags "
    "are those of the parsed document, each as often. Both are read from the output by another parser (Python's "
    "html.parser).",
    "Half of the fragments have lost, doubled and moved some of their tags; their document is what a browser makes of "
    "them.",
)


def fragments(count: int, seed: int = 1) -> Iterator[str]:
    """Random HTML: one half well-formed, the other half damaged."""
    draw = random.Random(seed)
    for n in range(count):
        pieces = list(nested(draw, draw.randint(1, 5), BLOCK + INLINE))
        if n % 2:
            damage(draw, pieces)
        yield "".join(pieces)


def nested(draw: random.Random, depth: int, names: Sequence[str]) -> Iterator[str]:
    """Text, marks and elements up to a depth, as pieces of markup."""
    for _ in range(draw.randint(1, 4)):
        kind = draw.random()
        if depth and kind < 0.5:
            name = draw.choice(names)
            yield f"<{name}{draw.choice(ATTRIBUTES)}>"
            yield from nested(draw, depth - 1, names if name in BLOCK[1:2] else INLINE)
            yield f"</{name}>"
        elif kind < 0.62:
            yield draw.choice(MARKS)
        elif kind < 0.7:
            yield draw.choice(WHOLE[:2] + WHOLE[3:4] if names is INLINE else WHOLE)
        else:
            words = " ".join(draw.choice(WORDS) for _ in range(draw.randint(1, 5)))
            yield draw.choice(("", " ", "\n  ")) + words + draw.choice(("", " "))


def damage(draw: random.Random, pieces: list[str]) -> None:
    """Lose, double and move pieces of markup."""
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(pieces))
        kind = draw.random()
        if kind < 0.4:
            pieces[place] = ""
        elif kind < 0.7:
            pieces.insert(draw.randrange(len(pieces) + 1), pieces[place])
        else:
            pieces.insert(draw.randrange(len(pieces)), pieces.pop(place))


def moved(text: str, order: Order, look_up: Callable[[str], str] = str) -> AlignedText:
    """The words of every line in another order, separated by spaces, with their links; `look_up` translates each."""
    lines: list[str] = []
    source: list[tuple[int, int]] = []
    target: list[tuple[int, int]] = []
    links: list[tuple[int, int]] = []
    offset = position = 0
    for line in text.split("\n"):
        words = word_spans(line)
        chosen = order(list(range(len(words))))
        links += [(len(source) + i, len(target) + place) for place, i in enumerate(chosen)]
        source += [(offset + start, offset + end) for start, end in words]
        written = [look_up(line[slice(*words[i])]) for i in chosen]
        for word in written:
            target.append((position, position + len(word)))
            position += len(word) + 1
        position += not written
        offset += len(line) + 1
        lines.append(" ".join(written))
    return AlignedText("\n".join(lines), source, target, links)


class TagReader(HTMLParser):
    """The tags of written markup, and whether they are balanced."""

    def __init__(self, markup: str, is_xml: bool) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.balanced = True
        self._is_xml = is_xml
        self._open: list[str] = []
        self.feed(markup)
        self.close()
        self.balanced &= not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        if self._is_xml or tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        if not self._is_xml and tag not in VOID and tag != "path":
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self._open or self._open.pop() != tag:
            self.balanced = False


def expected_tags(source: str, is_xml: bool) -> Counter[str]:
    """The start tags of the parsed document."""
    if is_xml:
        markups = [token.markup for token in read_tokens(source, "a segment") if token.kind == "start"]
    else:
        events: list[Event] = read_html(source)
        markups = [event.markup for event in events if isinstance(event, Start) and event.markup]
    return Counter(tag for markup in markups for tag in TagReader(markup, is_xml).tags.elements())


def check(sources: Sequence[str], is_xml: bool, order: Order) -> dict[str, float]:
    """Parse, translate and write every source; counts and seconds."""
    parse: Callable[[str], Document] = parse_xml if is_xml else parse_html
    result = dict.fromkeys(("documents", "segments", "tags", "balanced", "same", "parsing", "writing", "bytes"), 0.0)
    for source in sources:
        started = time.perf_counter()
        document = parse(source)
        parsed = time.perf_counter()
        translations = [moved(segment.text, order) for segment in document.segments]
        translated = time.perf_counter()
        written = document.render(translations)
        result["writing"] += time.perf_counter() - translated
        result["parsing"] += parsed - started
        read, expected = TagReader(written, is_xml), expected_tags(source, is_xml)
        result["documents"] += 1
        result["segments"] += len(document.segments)
        result["tags"] += expected.total()
        result["balanced"] += read.balanced
        result["same"] += read.tags == expected
        result["bytes"] += len(source.encode())
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="the folder of localization-xml")
    parser.add_argument("--fragments", type=int, default=5000, help="number of random fragments")
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    corpora: list[tuple[str, bool, list[str]]] = [("random HTML", False, list(fragments(asked.fragments)))]
    for path in sorted(asked.data.glob("en-*.en.gz")) if asked.data else []:
        corpora.append((path.name.removesuffix(".gz"), True, gzip.decompress(path.read_bytes()).decode().splitlines()))
    draw = random.Random(3)
    orders: dict[str, Order] = {
        "backwards": lambda words: words[::-1],
        "at random": lambda words: draw.sample(words, len(words)),
    }
    rows, measured = [], {}
    for name, is_xml, sources in corpora:
        for order_name, order in orders.items():
            result = check(sources, is_xml, order)
            measured[f"{name} {order_name}"] = result
            kilobytes = result["bytes"] / 1000
            rows.append(
                [
                    name, order_name, *(f"{result[key]:,.0f}" for key in ("documents", "segments", "tags")),
                    *(f"{100 * result[key] / result['documents']:.2f} %" for key in ("balanced", "same")),
                    *(table_number(1000 * result[key] / kilobytes) for key in ("parsing", "writing")),
                ]
            )  # fmt: skip
    columns = [
        "source",
        "words",
        "documents",
        "texts",
        "tags",
        "well-formed",
        "same tags",
        "parse, ms/kB",
        "write, ms/kB",
    ]
    Report("markup", "Documents with moved words", columns, rows, NOTES, measured).publish(asked.save)


if __name__ == "__main__":
    main()
