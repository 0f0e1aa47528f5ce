"""JSON and gettext: messages are translated, keys and placeholders stay, and so do translations that are there."""

import json

import polib
import pytest

from interlinear.documents import AlignedText
from interlinear.documents.files import parse_file
from tests.interlinear.documents.translations import backwards, same
from tests.interlinear.documents.translations_of_files import texts, translated

JSON = (
    '{"key a": "Ein Hund", "b": [1, "Hallo {name} mit %d Briefen", {"c": "ftp://x"}],\n "d": "zwei\\nZeilen \\u00e4"}'
)
PO = """# Kopf
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\\n"

#: a.c:1
#, c-format
msgid "Ein Hund mit %s da"
msgstr ""

msgid "Schon da"
msgstr "Already there"

msgctxt "menu"
msgid "%d Hund hier"
msgid_plural "%d Hunde hier"
msgstr[0] ""
msgstr[1] ""
msgstr[2] ""

#~ msgid "Alt und weg"
#~ msgstr ""
"""


def test_values_of_json():
    assert texts(JSON, "a.json") == ["Ein Hund", "Hallo mit Briefen", "zwei\nZeilen ä"]
    assert translated(JSON, "a.json", same).decode() == JSON
    assert json.loads(translated(JSON, "a.json", backwards)) == {
        "key a": "Hund Ein",
        "b": [1, "Briefen mit %d Hallo {name}", {"c": "ftp://x"}],
        "d": "zwei\nä Zeilen",
    }


def test_half_a_character_stays():
    text = '["Ein Hund", "ein \\ud800 Hund"]'
    assert texts(text, "a.json") == ["Ein Hund"] and translated(text, "a.json", same).decode() == text


def test_numbers_of_json_may_have_any_length():
    text = json.dumps({"a": "Ein Hund"})[:-1] + f', "b": -{"1" * 5000}, "c": {"2" * 500}.{"3" * 5000}e-{"4" * 5000}}}'
    assert texts(text, "a.json") == ["Ein Hund"] and translated(text, "a.json", same).decode() == text


def test_quotes_in_a_translation_are_escaped():
    written = translated('{"a": "er sagt \\"ja\\" da"}', "a.json", backwards)
    assert json.loads(written)["a"].count('"') == 2


def test_messages_without_translation():
    assert texts(PO, "a.po") == ["Ein Hund mit da", "Hund hier", "Hunde hier"]
    written = translated(PO, "a.po", backwards).decode()
    messages = {entry.msgid: entry for entry in polib.pofile(f"\n{written}")}
    assert messages["Ein Hund mit %s da"].msgstr == "da mit %s Hund Ein"
    assert messages["Schon da"].msgstr == "Already there"
    forms = messages["%d Hund hier"].msgstr_plural
    assert [form.split() for form in forms.values()] == [["%d", "hier", "Hund"]] + [["%d", "hier", "Hunde"]] * 2
    assert '#~ msgid "Alt und weg"' in written and written.startswith("# Kopf\n") and "#, c-format" in written


def test_a_language_with_one_form_gets_the_plural():
    po = 'msgid "ein Hund"\nmsgid_plural "zwei Hunde"\nmsgstr[0] ""\n'
    assert 'msgstr[0] "Hunde zwei"' in translated(po, "a.po", backwards).decode()


HEADER = '# Kopf\nmsgid ""\nmsgstr ""\n"Language: fr\\n"\n"Content-Type: text/plain; charset={}\\n"\n\n'


@pytest.mark.parametrize("charset", ["ISO-8859-1", "US-ASCII", "CP1250"])
def test_a_catalogue_is_in_utf_8_where_its_charset_has_not_all_characters(charset):
    po = (HEADER + 'msgid "Ein Werk da"\nmsgstr ""\n').format(charset).encode("ascii")
    for translation in ("l’œuvre … 5 €", "\U0001f415 Привет"):
        written = translated(po, "a.po", lambda _, text=translation: AlignedText(text))
        messages = polib.pofile(f"\n{written.decode('utf-8')}")
        assert messages[0].msgstr == translation
        assert messages.metadata == {"Language": "fr", "Content-Type": "text/plain; charset=UTF-8"}


def test_a_catalogue_keeps_its_charset_where_it_has_all_characters():
    po = (HEADER + 'msgid "Größe da"\nmsgstr ""\n').format("ISO-8859-1").encode("latin-1")
    written = translated(po, "a.po", backwards)
    assert written == po.removesuffix(b'""\n') + '"da Größe"\n'.encode("latin-1")
    file = parse_file(po, "a.po")
    assert "charset=UTF-8" in file.render([AlignedText("œ")]).decode()
    assert "charset=ISO-8859-1" in file.render([AlignedText("ä")]).decode("latin-1")


def test_a_template_without_charset_gets_one():
    po = (HEADER + 'msgid "Größe da"\nmsgstr ""\n').format("CHARSET").encode()
    assert "charset=UTF-8" in translated(po, "a.pot", backwards).decode()
