"""JSON and gettext: messages are translated, keys and placeholders stay, and so do translations that are there."""

import json

import polib

from tests.documents.translations import backwards, same
from tests.documents.translations_of_files import texts, translated

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
