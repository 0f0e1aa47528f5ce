"""Markdown: texts of blocks, with inline markup at their words; code, links' targets and front matter stay."""

import pytest

from tests.documents.translations import backwards, same
from tests.documents.translations_of_files import texts, translated

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
        ("eins [zwei]\n\n[zwei]: http://x.de\n", "[zwei](http://x.de) eins\n\n[zwei]: http://x.de\n"),
        ("eins zwei  \ndrei vier\n", "zwei eins\\\nvier drei\n"),
        ("eins zwei<br>drei vier", "zwei eins<br>vier drei"),
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
