"""XLIFF 1.2 and 2 (.xlf, .xliff): sources without target get one."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from interlinear.documents.document import DocumentFile
from interlinear.documents.events import Event, Role, Text
from interlinear.documents.formats import document_format
from interlinear.documents.messages.messages import message_block
from interlinear.documents.reading.xml_tree import Element, Node, XmlFile, escape_xml, markup, read_xml
from interlinear.documents.text_formats.plain_text import file_of
from interlinear.documents.xml_formats.trees import (
    MixedText,
    around_root,
    on_one_line,
    structure,
    verbatim,
    xml_document,
)
from interlinear.errors import DataError

NAMESPACES = {
    "urn:oasis:names:tc:xliff:document:1.1": "",
    "urn:oasis:names:tc:xliff:document:1.2": "",
    **{f"urn:oasis:names:tc:xliff:document:2.{minor}": "" for minor in range(3)},
}
UNITS = frozenset(("trans-unit", "segment"))  # elements with a source and a target, of version 1 and 2
INLINE = frozenset(("g", "mrk", "pc"))
LINE_END = "line end"  # the name of elements that `with_line_ends` makes


@document_format(".xlf", ".xliff", declares_encoding=True)
def read_xliff(data: bytes, where: str) -> DocumentFile:
    """An XLIFF file: units without target, with an empty one, or with a copy of the source whose state is new, get the
    translation of their source; others stay. `translate="no"` is heeded. Raises DataError."""
    file = read_xml(data, where, NAMESPACES, doctype=True)
    if file.root.name != "xliff":
        raise DataError(where, f"is not XLIFF: its root is <{file.root.name[:80]}>", "check its suffix")
    warnings: list[str] = []
    document = xml_document(file, walk(file.root, warnings.append))
    read = replace(file_of(file.decoded, document), warnings=tuple(warnings))
    attributes = file.root.attributes
    says_no_language = attributes.get("version", "").startswith("2.") and "trgLang" not in attributes
    return replace(read, in_language=with_target_language(file)) if says_no_language else read


def with_target_language(file: XmlFile) -> Callable[[str, str], str]:
    """Adds the language of the translation to the root if it is known. Version 2 requires it beside targets."""
    before, _ = around_root(file.tree)
    end = len(before + file.root.tag) - len(">")

    def written(rendered: str, target: str) -> str:
        if target == "und":
            return rendered
        return f'{rendered[:end].rstrip()} trgLang="{target}"{rendered[end:]}'

    return written


Warn = Callable[[str], None]


def walk(element: Element, warn: Warn, keeps_space: bool = False) -> Iterator[Event]:
    """An element of the file: a unit, or what is around units. `keeps_space`: whether white space around it means
    something."""
    keeps_space = space_is_kept(element, keeps_space)
    source, target = element.find("source"), element.find("target")
    if element.attributes.get("translate") == "no":
        yield from verbatim(markup(element))
    elif element.name not in UNITS or source is None:
        yield from structure(element, partial(walk, warn=warn, keeps_space=keeps_space))
    elif target is not None and (target.text().strip() or target.elements) and not is_copy(element, source, target):
        yield from verbatim(markup(element))
    else:
        yield from unit(element, source, target, space_is_kept(source, keeps_space), warn)


def is_copy(unit: Element, source: Element, target: Element) -> bool:
    """Whether a target is the source, which its state says is to be translated; in version 2 the segment says so."""
    state = target.attributes.get("state") or unit.attributes.get("state")
    return state in UNTRANSLATED and target.text().split() == source.text().split()


def space_is_kept(element: Element, around: bool) -> bool:
    """Whether white space in an element means something, if around it it does or does not."""
    space = element.attributes.get("xml:space")
    return around if space is None else space == "preserve"


def unit(element: Element, source: Element, target: Element | None, keeps_space: bool, warn: Warn) -> Iterator[Event]:
    """A unit with a new target: in place of its empty one, else after the source and its segmentation."""
    segmented = element.find("seg-source")
    before = target or segmented or source
    at = element.children.index(before)
    yield from verbatim(element.tag + "".join(map(markup, element.children[: at if target else at + 1])))
    opening, closing = target_tags(source, target)
    children = (segmented or source).children
    content = TEXT.content(paired(with_line_ends(children) if keeps_space else children))
    yield from message_block(opening, closing, on_one_line(content), escape_xml, mnemonics="&", warn=warn)
    yield from verbatim("".join(map(markup, element.children[at + 1 :])) + element.closing)


def target_tags(source: Element, target: Element | None) -> tuple[str, str]:
    """The tags of a new target. One that was empty keeps its attributes, but no state as new."""
    name = f"{source.prefix}target"
    if target is None:
        return f"<{name}>", f"</{name}>"
    attributes = target.tag[len(name) + 1 :].rstrip("/>").rstrip()
    return f"<{name}{re.sub(NEW_STATE, '', attributes)}>", f"</{name}>"


UNTRANSLATED = ("new", "needs-translation", "initial")  # states of a target, and of a segment in version 2
NEW_STATE = re.compile(r"""\sstate\s*=\s*["'](?:new|needs-translation|initial)["']""")


def with_line_ends(children: list[Node]) -> list[Node]:
    """The content of a source whose white space means something: its line ends are elements."""
    content: list[Node] = []
    for child in children:
        if isinstance(child, Element):
            content.append(replace(child, children=with_line_ends(child.children)))
        else:  # expat reads every line end by itself
            is_line_end = isinstance(child, Text) and child.text == "\n"
            content.append(Element(LINE_END, children=[child]) if is_line_end else child)
    return content


def paired(children: list[Node]) -> list[Node]:
    """The content of a source, and of each element in it, whose codes that begin and end formatting (`bpt` and `ept`,
    `sc` and `ec`, `bx` and `ex`) are elements around what is between, so that they stay around its translation in this
    order."""
    content: list[Node] = []
    open_codes: list[tuple[int, str]] = []
    for child in children:
        if not isinstance(child, Element):
            content.append(child)
            continue
        content.append(replace(child, children=paired(child.children)))
        key = code_key(child)
        if child.name in OPENING:
            open_codes.append((len(content) - 1, f"{OPENING[child.name]} {key}"))
        elif open_codes and open_codes[-1][1] == f"{child.name} {key}":
            begin, _ = open_codes.pop()
            inner = content[begin + 1 : -1]
            content[begin:] = [Element("g", {}, markup(content[begin]), markup(child), inner)]
    return content


OPENING = {"bpt": "ept", "bx": "ex", "sc": "ec"}


def code_key(element: Element) -> str:
    """The key that the begin and the end of a pair share."""
    attributes = element.attributes
    names = ("startRef", "rid", "id", "i")  # the last is TMX's
    return next((attributes[name] for name in names if attributes.get(name)), "")


def role_of(element: Element) -> Role:
    """How an element takes part in the text of a source."""
    if element.name == "mrk" and element.attributes.get("mtype") == "seg":
        return Role.BLOCK
    if element.attributes.get("mtype") == "protected" or element.attributes.get("translate") == "no":
        return Role.PROTECTED
    if element.name == LINE_END or is_line_break(element):
        return Role.LINE_BREAK
    return Role.INLINE if element.name in INLINE else Role.VERBATIM


def is_line_break(element: Element) -> bool:
    """Whether a code stands for a line break: it says so (`ctype="lb"`, `subType="xlf:lb"`), or has nothing but one."""
    attributes = element.attributes
    says_so = LINE_BREAK.fullmatch(attributes.get("ctype") or attributes.get("subType") or "")
    is_code = element.name in ("x", "ph", "it", "ut")
    return is_code and (says_so is not None or BREAKS.fullmatch(element.text()) is not None)


LINE_BREAK = re.compile(r"(?:x-|xlf:)?(?:html-)?(?:lb|br)", re.IGNORECASE)
BREAKS = re.compile(r"\s*\n\s*|\s*<br\s*/?>\s*|\\n", re.IGNORECASE)


def segment(element: Element) -> Iterator[Event]:
    """One of the sentences into which a source is divided."""
    content = on_one_line(TEXT.content(element.children))
    yield from message_block(element.tag, element.closing, content, escape_xml, mnemonics="&")


TEXT = MixedText(role_of, segment)
