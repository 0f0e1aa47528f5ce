"""Fields of Word (ISO/IEC 29500-1, 17.16): an instruction, and its result as last computed."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from interlinear.documents.reading.xml_tree import Element

CHARACTER, INSTRUCTION, SIMPLE_FIELD = "w:fldChar", "w:instrText", "w:fldSimple"
INSERTIONS = frozenset(("w:ins", "w:moveTo"))  # of which there may be one around each run
TEXT_FIELDS = frozenset(("HYPERLINK", "TOC"))  # whose results are texts of the writer


@dataclass(frozen=True)
class Field:
    """A field whose begin and end are in one paragraph.

    begin: its runs up to the separator. result: the displayed nodes, as last computed. end: the run that ends it.
    """

    begin: Sequence[Element]
    result: Sequence[Element]
    end: Sequence[Element]

    @property
    def nodes(self) -> list[Element]:
        return [*self.begin, *self.result, *self.end]

    @property
    def is_text(self) -> bool:
        """Whether its result is text of the writer, and not computed."""
        return is_text_field(
            "".join(element.text() for run in self.begin for element in run.walk() if element.name == INSTRUCTION)
        )


def is_text_field(instruction: str) -> bool:
    """Whether the result of a field with this instruction is text of the writer."""
    return not TEXT_FIELDS.isdisjoint(instruction.upper().split()[:1])


def with_divided_insertions(nodes: Sequence[Element], run: str) -> Iterator[Element]:
    """The nodes of a paragraph. A tracked insertion in which a field begins that ends elsewhere, or ends, is one around
    each of its runs."""
    for node in nodes:
        if node.name in INSERTIONS and not is_balanced(kind for child in node.elements for kind in kinds(child, run)):
            yield from (replace(node, children=[child]) for child in node.elements)
        else:
            yield node


def is_balanced(found: Iterable[str]) -> bool:
    """Whether all fields that begin also end, by the kinds of field characters."""
    depth = 0
    for kind in found:
        depth += (kind == "begin") - (kind == "end")
        if depth < 0:
            return False
    return not depth


def with_fields(nodes: Sequence[Element], run: str) -> Iterator[Element | Field]:
    """The nodes of a paragraph, with the nodes of each complete field as one."""
    ends = ends_of_fields(nodes, run)
    n = 0
    while n < len(nodes):
        if n in ends:
            yield divide_field(nodes[n : ends[n] + 1], run)
            n = ends[n] + 1
        else:
            yield nodes[n]
            n += 1


def is_field_part(node: Element) -> bool:
    """Whether a run has a part of a field that begins or ends elsewhere."""
    return any(child.name in (CHARACTER, INSTRUCTION) for child in node.elements)


def kinds(node: Element, run: str) -> list[str]:
    """The kinds of a run's field characters, in order."""
    if node.name in INSERTIONS and len(node.elements) == 1:
        return kinds(node.elements[0], run)
    if node.name != run:
        return []
    return [child.attributes.get("w:fldCharType", "") for child in node.elements if child.name == CHARACTER]


def ends_of_fields(nodes: Sequence[Element], run: str) -> dict[int, int]:
    """For each node in which a field begins, the index of the node in which it ends, if it does."""
    ends: dict[int, int] = {}
    open_fields: list[int] = []
    for n, node in enumerate(nodes):
        for kind in kinds(node, run):
            if kind == "begin":
                open_fields.append(n)
            elif kind == "end" and open_fields:
                ends[open_fields.pop()] = n
    return ends


def divide_field(nodes: Sequence[Element], run: str) -> Field:
    """A field's nodes as begin, result and end."""
    depth = 0
    for n, node in enumerate(nodes[:-1]):
        found = kinds(node, run)
        depth += found.count("begin") - found.count("end")
        if depth == 1 and "separate" in found:
            return Field(nodes[: n + 1], nodes[n + 1 : -1], nodes[-1:])
    return Field(nodes, (), ())
