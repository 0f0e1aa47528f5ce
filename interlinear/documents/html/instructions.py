"""Instructions of programs in HTML: PHP, CDATA sections, and tags of templates, which a browser would not keep.

Before HTML is parsed they are masked: in content by HTML comments, in tags and titles by characters.
"""

import re

from interlinear.documents.masks import Masks

CODE = r"<\?|<%|<!\[CDATA\[|\{\{|\{%|\{#"
CONTENT = re.compile(rf"(?P<comment><!--)|(?P<code>{CODE})|<(?P<tag>/?[A-Za-z][^\s/<>]*)")
IN_TAG = re.compile(rf"(?P<end>>)|(?P<code>{CODE})|=\s*(?P<quote>[\"'])")
QUOTED = {quote: re.compile(rf"(?P<end>{quote})|(?P<code>{CODE})") for quote in "\"'"}
ENDS = {"<%": "%>", "<![CDATA[": "]]>", "{{": "}}", "{%": "%}", "{#": "#}"}
PHP = re.compile(r"<\?(?:php\b|[=\s])", re.IGNORECASE)  # others end at the first >, as XML's declaration
RAW = frozenset("iframe noembed noframes plaintext script style xmp".split())  # no instruction is found in their text
TITLES = frozenset(("textarea", "title"))  # text in which there are no comments


def mask_instructions(html: str, masks: Masks) -> str:
    """HTML of the same length without instructions. Takes time linear in the text."""
    if not re.search(CODE, html):
        return html
    return Masking(html, masks).masked()


class Masking:
    """One pass over HTML. Its only state is whether it is inside a tag."""

    def __init__(self, html: str, masks: Masks) -> None:
        self._html, self._masks = html, masks
        self._written: list[str] = []
        self._done = 0
        self._unclosed: set[str] = set()  # ends that do not occur in the rest

    def masked(self) -> str:
        position = 0
        while found := CONTENT.search(self._html, position):
            if found["comment"]:
                position = self._after("-->", found.end() - len("--")) or len(self._html)
            elif found["code"]:
                position = self._instruction(found, is_content=True)
            else:
                position = self._tag(found.end(), found["tag"].lower())
        return "".join([*self._written, self._html[self._done :]])

    def _tag(self, position: int, name: str) -> int:
        """The end of a tag, and of a text without tags after it."""
        while found := IN_TAG.search(self._html, position):
            position = found.end()
            if found["end"]:
                return self._text_without_tags(position, name) if name in RAW | TITLES else position
            if found["code"]:
                position = self._instruction(found)
            elif found["quote"]:
                position = self._until(QUOTED[found["quote"]], position)
        return len(self._html)

    def _text_without_tags(self, position: int, name: str) -> int:
        end = re.compile(rf"(?P<end></{name})" + ("" if name in RAW else f"|(?P<code>{CODE})"), re.IGNORECASE)
        return self._until(end, position)

    def _until(self, pattern: "re.Pattern[str]", position: int) -> int:
        while found := pattern.search(self._html, position):
            if found["end"]:
                return found.start() if found["end"].startswith("<") else found.end()
            position = self._instruction(found)
        return len(self._html)

    def _instruction(self, found: "re.Match[str]", is_content: bool = False) -> int:
        """Mask an instruction, and return its end."""
        start, code = found.start(), found["code"]
        if code == "<?":
            is_php = PHP.match(self._html, start)
            end = self._after("?>" if is_php else ">", found.end()) or (len(self._html) if is_php else None)
        else:
            end = self._after(ENDS[code], found.end())
        if end is None:
            return found.end()
        if self._html.startswith("{{{", start) and self._html.startswith("}", end):
            end += 1
        mask = self._masks.mask(self._html[start:end])
        if is_content and mask != self._html[start:end]:
            mask = f"<?{mask[3:]}>"
        self._written += [self._html[self._done : start], mask]
        self._done = end
        return end

    def _after(self, closing: str, position: int) -> int | None:
        """The place after the next `closing`, if there is one."""
        if closing in self._unclosed:
            return None
        found = self._html.find(closing, position)
        if found < 0:
            self._unclosed.add(closing)
            return None
        return found + len(closing)
