"""Do documents keep their tags, whatever order the words are translated in, and what does it cost?

    python -m research.quality.markup [--data FOLDER] [--fragments N] [--peers FOLDER] [--save]

Random HTML fragments (well-formed ones, and the same with tags lost, doubled and crossed), and the segments of
localization-xml in FOLDER. Every text is translated by moving its words, so that the links are known: backwards, and at
random. Counted: documents whose written tags are balanced, and are those of the parsed document, each as often; and
whose texts are the translations of whole texts. With --peers, a folder of benchmarks/peers/argos.sh, Argos Translate's
translation of HTML is counted on the same documents. Measured: milliseconds to parse, and to write with all
translations, for each kilobyte of the source.
"""

import gzip
import json
import random
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

from benchmarks.runner import Benchmark, Column, Contestant, Figures, Labels, Options, run
from interlinear.documents import AlignedText, Document, parse_html, parse_xml
from interlinear.documents.events import Event, Start
from interlinear.documents.html.elements import VOID
from interlinear.documents.html.tree import read_html
from interlinear.documents.xml import read_tokens
from interlinear.errors import InterlinearError
from interlinear.text.words import word_spans

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
    "html.parser). *Whole texts*: the texts of the written document are the translations of those of the source; where "
    "parts of a sentence are translated alone, they are not.",
    "*Argos Translate*: translatehtml 1.5.3 with the same translation. It translates a sentence with tags as a whole "
    "if it finds the translation of each tag's words in that of the sentence, else every part alone. Its time is that "
    "of its process, with its start and the translation.",
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
        events: list[Event] = read_html(source, "HTML")
        markups = [event.markup for event in events if isinstance(event, Start) and event.markup]
    return Counter(tag for markup in markups for tag in TagReader(markup, is_xml).tags.elements())


@dataclass
class Counts:
    """Counts over documents, and seconds."""

    documents: int = 0
    texts: int = 0
    tags: int = 0
    balanced: int = 0
    same: int = 0
    whole: int = 0
    parsing: float = 0.0
    writing: float = 0.0
    bytes: int = 0

    def add(self, source: str, document: Document, translations: Sequence[str], written: str, is_xml: bool) -> None:
        """Count a source document and what was written for it. `translations`: of the document's segments."""
        read, expected = TagReader(written, is_xml), expected_tags(source, is_xml)
        self.documents += 1
        self.texts += len(document.segments)
        self.tags += expected.total()
        self.balanced += read.balanced
        self.same += read.tags == expected
        self.whole += texts_of(written, is_xml) == Counter(squeezed(text) for text in translations if text.strip())
        self.bytes += len(source.encode())

    @property
    def figures(self) -> Figures:
        shares = {name: getattr(self, name) / self.documents for name in ("balanced", "same", "whole")}
        times = {name: 1e6 * getattr(self, name) / self.bytes for name in ("parsing", "writing")}  # ms a kilobyte
        return {"documents": self.documents, "texts": self.texts, "tags": self.tags, **shares, **times}


def parse(source: str, is_xml: bool) -> Document:
    return parse_xml(source) if is_xml else parse_html(source)


def squeezed(text: str) -> str:
    """A text without white space, which is not a question of order."""
    return "".join(text.split())


def texts_of(written: str, is_xml: bool) -> Counter[str] | None:
    """The texts of a written document, attributes' too, which move with their tags; None if it cannot be read."""
    try:
        return Counter(squeezed(segment.text) for segment in parse(written, is_xml).segments if segment.text.strip())
    except InterlinearError:
        return None


def check(sources: Sequence[str], is_xml: bool, order: Order) -> Counts:
    """Parse, translate and write every source."""
    counts = Counts()
    for source in sources:
        started = time.perf_counter()
        document = parse(source, is_xml)
        parsed = time.perf_counter()
        translations = [moved(segment.text, order) for segment in document.segments]
        translated = time.perf_counter()
        written = document.render(translations)
        counts.writing += time.perf_counter() - translated
        counts.parsing += parsed - started
        counts.add(source, document, [text.text for text in translations], written, is_xml)
    return counts


def check_argos(peers: Path, sources: Sequence[str], is_xml: bool, order: Order) -> Counts:
    """The same with Argos Translate."""
    counts = Counts()
    command = [peers / "venv" / "bin" / "python", Path(__file__).parent / "peers" / "argos_html.py"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as argos:
        assert argos.stdin and argos.stdout
        for source in sources:
            started = time.perf_counter()
            argos.stdin.write(json.dumps(source) + "\n")
            argos.stdin.flush()
            while "document" not in (answer := json.loads(argos.stdout.readline())):
                argos.stdin.write(json.dumps(moved(answer["translate"], order).text) + "\n")
                argos.stdin.flush()
            counts.writing += time.perf_counter() - started
            document = parse(source, is_xml)
            translations = [moved(segment.text, order).text for segment in document.segments]
            counts.add(source, document, translations, answer["document"], is_xml)
        argos.stdin.close()
    return counts


ORDERS: dict[str, Order] = {
    "backwards": lambda words: words[::-1],
    # Equal texts have equal orders.
    "at random": lambda words: random.Random(len(words)).sample(words, len(words)),
}
Corpus = tuple[str, bool, list[str]]  # name, whether it is XML, documents


def measure(
    corpora: Sequence[Corpus], checked: Callable[[Sequence[str], bool, Order], Counts]
) -> dict[Labels, Figures]:
    """A system's counts on every corpus, with the words in every order."""
    return {
        (name, order): checked(sources, is_xml, ORDERS[order]).figures
        for name, is_xml, sources in corpora
        for order in ORDERS
    }


def main() -> None:
    options = Options(__doc__, rounds=1)
    options.add_argument("--data", type=Path, help="the folder of localization-xml")
    options.size("--fragments", 5000, 50, "number of random fragments")
    options.size("--lines", None, 50, "segments of each language")
    options.add_argument("--peers", type=Path, metavar="FOLDER", help="made by benchmarks/peers/argos.sh")
    asked = options.parse()
    corpora: list[Corpus] = [("random HTML", False, list(fragments(asked.fragments)))]
    for path in sorted(asked.data.glob("en-*.en.gz")) if asked.data else []:
        lines = gzip.decompress(path.read_bytes()).decode().splitlines()[: asked.lines]
        corpora.append((path.name.removesuffix(".gz"), True, lines))
    contestants = [Contestant("Interlinear", partial(measure, corpora, check))]
    if asked.peers:
        contestants.append(Contestant("Argos Translate", partial(measure, corpora, partial(check_argos, asked.peers))))
    benchmark = Benchmark(
        "markup",
        "Documents with moved words",
        {
            **{figure: Column(figure, ",.0f") for figure in ("documents", "texts", "tags")},
            "balanced": Column("well-formed", ".2%"),
            "same": Column("same tags", ".2%"),
            "whole": Column("whole texts", ".2%"),
            "parsing": Column("parse, ms/kB"),
            "writing": Column("write, ms/kB"),
        },
        NOTES,
        ("source", "words"),
    )
    run(benchmark, contestants, asked)


if __name__ == "__main__":
    main()
