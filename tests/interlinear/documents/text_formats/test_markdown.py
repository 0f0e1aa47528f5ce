"""Markdown: texts of blocks, with inline markup at their words; code, links' targets and front matter stay."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from interlinear.documents import AlignedText
from interlinear.documents.files import parse_file
from tests.interlinear.documents.translations import backwards, by_word, same
from tests.interlinear.documents.translations_of_files import texts, translated

DOCUMENT = """---
title: Ein Titel
---
# Ein *Hund* läuft

Ein Text mit `code x` und [einem Link](http://x.de "Titel da") da.

> Zitat eins

- Punkt eins
  1. Punkt zwei

| Spalte a | b \\| c |
|---|---|
| eins zwei | drei ![Bild da](x.png) |

```python
x = "Hund"
```

    Code Block

<div>html da</div>
"""


def test_what_is_translated():
    assert texts(DOCUMENT, "a.md") == [
        "Ein Hund läuft", "Ein Text mit und einem Link da.", "Zitat eins", "Punkt eins", "Punkt zwei",
        "Spalte a", "b | c", "eins zwei", "Bild da", "drei",
    ]  # fmt: skip


def test_a_document_whose_words_stay_is_written_as_it_was():
    for text in (DOCUMENT, DOCUMENT.replace("\n", "\r\n")):
        assert translated(text, "a.md", same).decode() == text


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("Ein **Hund** läuft\n", "läuft **Hund** Ein\n"),
        ("eins `x` [zwei drei](u)", "[drei zwei](u) eins `x`"),
        ("> eins zwei\n> drei\n", "> drei zwei eins\n"),
        ("- eins\n  zwei\n", "- zwei eins\n"),
        ("eins [zwei]\n\n[zwei]: http://x.de\n", "[zwei][zwei] eins\n\n[zwei]: http://x.de\n"),
        ("eins [zwei][Da]\n\n[da]: http://x.de\n", "[zwei][Da] eins\n\n[da]: http://x.de\n"),
        ("eins zwei  \ndrei vier\n", "zwei eins  \nvier drei\n"),
        ("> eins zwei\\\n> drei vier\n", "> zwei eins\\\n> vier drei\n"),
        ("eins zwei\n<b>drei  \nvier</b>", "<b>drei zwei eins  \nvier</b>"),
        ("eins ![zwei *drei*](u)", "eins ![*drei* zwei](u)"),
        ("Siehe https://x.de/a_b?c=1 oder www.x.de da", "da oder www.x.de Siehe https://x.de/a_b?c=1"),
        ("eins zwei<br>drei vier", "zwei eins<br>vier drei"),
        ("eins zwei\\\n{name}\n", "zwei eins\\\n{name}\n"),
        ("eins `x`<img> {name}\n", "eins `x`<img> {name}\n"),
    ],
)
def test_markup_goes_with_its_words(markdown, expected):
    assert translated(markdown, "a.markdown", backwards).decode() == expected


@pytest.mark.parametrize("text", ["eins # zwei", "eins - zwei", "eins * zwei", "eins [zwei] <b> `c", "eins 1. zwei"])
def test_a_translation_is_text_and_no_markup(text):
    """What is read from the written document is the translation, however its words are arranged."""
    escaped = "".join(f"\\{c}" if c in "#-*[]<>`." else c for c in text)
    once = translated(escaped + "\n", "a.md", backwards)
    assert texts(once, "a.md") == [backwards(texts(escaped, "a.md")[0]).text]


def uppercase(text):
    return by_word(text, str.upper)


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("- [ ] eins\n- [x] zwei\n  * [X] x\n1. [ ]\n", "- [ ] EINS\n- [x] ZWEI\n  * [X] X\n1. [ ]\n"),
        ("eins[^1] zwei [^n-o].\n", "EINS[^1] ZWEI [^n-o]."),
        ("[^1]: Note\n[^note]: note *da*\n", "[^1]: NOTE\n[^note]: NOTE *DA*\n"),
        ("eins\n[^1]:\n    zwei\n\n    drei\n\nvier\n", "EINS\n[^1]:\n    ZWEI\n\n    DREI\n\nVIER\n"),
        ("[^1]: http://x.de da\n\neins[^1]\n", "[^1]: http://x.de DA\n\nEINS[^1]\n"),
        ("> [!NOTE]\n> Note da\n> und\n", "> [!NOTE]\n> NOTE DA UND\n"),
        ("> [!tip]  \n>\n> - [x] da\n", "> [!tip]  \n>\n> - [x] DA\n"),
    ],
)
def test_marks_of_tasks_footnotes_and_alerts_stay(markdown, expected):
    written = translated(markdown, "a.md", uppercase).decode()
    assert written.replace(" .", ".").strip() == expected.strip()
    assert not any("[" in text for text in texts(markdown, "a.md"))


def test_footnotes_are_not_in_each_other():
    markdown = "[^a]: " * 5000 + "eins\n\nzwei\n"
    assert translated(markdown, "a.md", same).decode() == markdown


def test_what_only_resembles_a_mark_is_text():
    markdown = "[x] da\n\n- [ ]da\n\n> eins [!NOTE]\n\nzwei [^ da]\n"
    assert texts(markdown, "a.md") == ["[x] da", "[ ]da", "eins [!NOTE]", "zwei [^ da]"]


def test_a_mark_is_at_the_begin_of_its_text_whatever_the_order_of_words():
    markdown = "- [ ] eins zwei\n\n[^1]: drei vier\n\n> [!NOTE]\n> fünf sechs\n"
    expected = "- [ ] zwei eins\n\n[^1]: vier drei\n\n> [!NOTE]\n> sechs fünf\n"
    assert translated(markdown, "a.md", backwards).decode() == expected


TABLE = """| a \\| b | c |
|:--|--:|
| `x\\|y` | **z** |
| <a title="x\\|y">eins</a> | [zwei](http://x.de/a\\|b "t\\|u") |
| <http://x.de/a\\|b> drei | - vier ![fünf](x\\|y.png) |
"""


def test_cells_are_divided_where_they_were():
    assert translated(TABLE, "a.md", same).decode() == TABLE
    assert texts(TABLE, "a.md") == ["a | b", "c", "z", "eins", "zwei", "drei", "fünf", "- vier"]
    assert translated("| a | b |\n|-|-|\n| a | b |\n", "a.md", lambda text: same("x|y")).decode().count("x\\|y") == 4


@pytest.mark.parametrize(
    "markdown",
    [
        "- eins\n  - zwei\n    - drei\n\n      vier\n* fünf\n+ sechs\n",
        "7. eins\n8. zwei\n   1) drei\n   2) vier\n",
        "> eins  \n> zwei\\\n> drei\n>> vier\n",
        "Ein [Hund][a] da.\n\n[a]: http://x.de 'Titel da'\n[b]: <y z> (x)\n",
        "Ein ![Bild](x.png \"Titel\") und ![b][x], ![*c* d](<a b.png> 'T')\n\n[x]: y.png\n",
        "[a](/ä?q=a&b=c) [b](u%20v (Titel)) [c](<u>) [d](/a(b)c) [e](file:///f) [f]()\n",
        "Siehe <http://x.de/ä%C3%A4> und <a@b.de> und https://x.de/_a_b, a.b@x.de da.\n",
        "Ein ~~Hund~~ und __zwei__ _drei_ snake_case a**b**c foo*bar*baz ***vier***\n",
        "Ein `` a`b `` und ` x ` und `a  b` und `` ` `` da\n",
        "a < b > c, 2 * 3, a|b, ~5, R&D, C:\\Users, \\_\\_a\\_\\_, - 3 + 1. #4 -> **5** - 6.\n",
        "## 1. Titel da\n\nTitel [da](u). Ja\n=====\n\n# C \\#\n",
        "<div>\nhallo\n</div>\n\nText <kbd>Strg</kbd> <!-- k --> <b>fett</b> da<br>\nzwei\n",
        "---\ntitle: Titel\n---\n\nText da\n",
        "eins\n\n***\n\n~~~\nx\n~~~\n\n[^1] [5] * 3\n3\n",
        "`st` **ef**\n\n![a](b) **ef** da\n\nhttp://x.de **drei** da\n",
    ],
)
def test_markup_is_written_as_it_was(markdown):
    assert translated(markdown, "a.md", same).decode() == markdown


def test_a_begin_of_a_line_that_would_be_a_block_is_escaped():
    for text in ("# eins", "1. eins", "2) eins", "- eins", "+ eins", "* eins", "> eins", "=== eins"):
        written = translated("Text da  \nzwei\n", "a.md", lambda _, text=text: AlignedText(f"{text}\n{text}"))
        assert texts(written, "a.md") == [f"{text}\n{text}"]


PIECES = (
    " http://x.de/a_b ", " <http://x.de> ", " `c` ", " ![b](v) ",
    "eins", " zwei ", " **drei** ", " *vier fünf* ", " _sechs_ ", " ~~sieben~~ ", "[acht](u \"t\")", "[r]", "[neun][r]",
    "\n", "\n\n", "  \n", "\\\n", " \\* ", "\\_", "\\[", "\\<b>", "&amp;lt;", " | zwei",
    " < ", ">", "#", "\n# ", "\n- ", "\n  - ", "\n3. ", "\n> ", "\n    ", "=", "---", "\n|-|-|\n",
    "\n| a | b |\n|-|-|\n", "\n- [ ] ", "\n> [!NOTE]\n> ", "\n\n[r]: v\n",
)  # fmt: skip
RENDERER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(lambda pieces: f"Text {''.join(pieces)}"))
@settings(max_examples=300, deadline=None)
def test_any_document_whose_words_stay_is_displayed_as_it_was(markdown):
    file = parse_file(markdown.encode(), "a.md")
    written = file.render([same(segment.text) for segment in file.segments]).decode()
    assert displayed(written) == displayed(markdown)


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("Der Hund {% if x %}da{% endif %} hier\n", ["Der Hund da hier"]),
        ("::: note Titel da\nDer Hund.\n:::\nzwei\n", ["Titel da", "Der Hund.", "zwei"]),
        (":::tip[Titel]\nHund\n\n- eins\n:::\n\n:::{note} Hier\nda\n:::\n", ["Titel", "Hund", "eins", "Hier", "da"]),
        ("- eins\n  ::: info\n  zwei\n  :::\n", ["eins", "zwei"]),
        (
            '!!! note "Der Titel"\n    Der *Hund* da.\n\n    - eins\n\nzwei\n',
            ["Der Titel", "Der Hund da.", "eins", "zwei"],
        ),
        ('??? tip\n    Hund\n\n=== "Da"\n    Hund\n', ["Hund", "Da", "Hund"]),
        ("> [!tip]- Titel da\n> Hund\n", ["Titel da", "Hund"]),
        ("# Hund {#hund .x}\n\n[da](u){: .btn} ![so](v){width=50%}, hier\n{: .note}\n", ["Hund", "so", "da, hier"]),
        ("import X from 'hund'\nexport const a = {\n  b: 1\n}\n\nHund {props.x}\n\n{/* Der Hund */}\n", ["Hund"]),
        ("[Hund]({{ site.url }}/x) und [da]({% link hund.md %})\n", ["Hund und da"]),
        ("{% include hund.html %}\nHund\n\n{{< tip >}}\nda\n{{< /tip >}}\n\n[TOC]\n", ["Hund", "da"]),
        ("Hallo @der_hund und #der_hund :dog: hier\n", ["Hallo und hier"]),
        ("```{note}\nHund\n```\n\n`{{ x }}` Hund {{ a_b*c*d }}\n", ["Hund"]),
        ("!!! da ist was\nHund === da\n\nimport ist gut\n", ["!!! da ist was Hund === da", "import ist gut"]),
    ],
)
def test_directives_and_template_tags_stay(markdown, expected):
    assert texts(markdown, "a.md") == expected
    if "!!! da" not in markdown:  # lines of a paragraph are joined
        assert translated(markdown, "a.md", same).decode() == markdown


def test_links_follow_the_headings_of_the_file():
    markdown = (
        "# Der *Hund*, da\n\n## Eins {#fest}\n\nEins\n----\n\n## Eins\n\n"
        "[a](#der-hund-da) [b][r] [c](#fest) [d](#eins-1)"
        " [e](x.md#eins) <a href='#eins'>f</a> `[g](#eins)` [h](#nichts \"T\")\n\n[r]: #eins\n\n```\n[r]: #eins\n```\n"
    )
    assert translated(markdown, "a.md", same).decode() == markdown
    names = {"Der": "The", "Hund": "dog", "da": "there", "Eins": "One"}
    written = translated(markdown, "a.md", lambda text: by_word(text, lambda word: names.get(word, word))).decode()
    assert "(#the-dog--there)" in written or "(#the-dog-there)" in written
    for kept in ("(#fest)", "{#fest}", "(#one-1)", "(x.md#eins)", "<a href='#one'>", "`[g](#eins)`", '(#nichts "T")'):
        assert kept in written
    assert written.endswith("[r]: #one\n\n```\n[r]: #eins\n```\n")


def displayed(markdown):
    """The HTML of a document without white space, which is not displayed."""
    return re.sub(r"\s+", "", RENDERER.render(markdown))


@pytest.mark.parametrize("formula", ["$x^2$", r"$\\alpha$", "$a_1 = b_2$", "$$\\nE = mc^2\\n$$"])
def test_formulas_stay(formula):
    formula = formula.replace("\\\\", "\\").replace("\\n", "\n")
    text = f"Der Hund {formula} da\n"
    assert texts(text, "a.md") == ["Der Hund da"] and formula in translated(text, "a.md", same).decode()
    assert texts("Das kostet $5 und $10 = x\n", "a.md") == ["Das kostet $5 und $10 = x"]
    assert texts("Hund %1$s \\* Stern${x} da\n", "a.md") == ["Hund * Stern da"]
