"""Messages of programs: placeholders, tags, references and ICU's branches stay, and their words are translated."""

import json
import re
import shutil
import subprocess

import polib
import pytest

from interlinear.documents import AlignedText
from interlinear.documents.files import parse_file
from tests.interlinear.documents.translations import backwards, same
from tests.interlinear.documents.translations_of_files import texts, translated


def upper(text: str) -> AlignedText:
    """The text in capitals, in its place."""
    aligned = same(text)
    return AlignedText(text.upper(), aligned.source_words, aligned.target_words, aligned.links)


def message(text: str, translate=upper) -> str:
    """A value of a JSON file, translated."""
    return json.loads(translated(json.dumps({"a": text}), "a.json", translate))["a"]


PLACEHOLDERS = [
    "{name}", "{0}", "{}", "{user.name}", "{x[0]}", "{0,-10:N2}", "{0:HH:mm}", "{name:{width}}", "{x!r:>10}",
    "{n, number}", "{{ x }}", "{{{name}}}", "{{ x | upper }}", "{% if x %}", "{%- endif -%}", "{# note #}",
    "{!! $html !!}", "<%= name %>", "<?php echo 1 ?>", "${x}", "#{x}", "%{x}", "{#if x}", "{/if}", "{$name|upper}",
    "$t(key)", "@:key.path", "@.lower:key", "%s", "%d", "%1$s", "%(name)s", "%(n)03d", "%5.2f", "%.*f", "%*d",
    "%'d", "%ld", "%zu", "%I64d", "%<PRIu64>", "%<name>s", "%@", "%1$@", "%#@files@", "%%", "%1", "%L1", "%n",
    "%1%", "%|1$d|", "%name%", "%PATH%", "$NAME$", "$name", ":name", ":user_name", ":smile:", "@count", "%title",
    "<@123>", "<#899101975264776194>", "<:wave:123>", "<t:1600:R>", "<!here>", "<@U123|anna>", "&brandName;",
    "<1/>", "<x id='1'/>", "*|FNAME|*", "[% name %]", "__COUNT__", "#name#", "{'@'}", "{{user}}'s", "<max@x.de>",
]  # fmt: skip


@pytest.mark.parametrize("placeholder", PLACEHOLDERS)
def test_a_placeholder_stays_and_is_not_read(placeholder):
    text = f"Der Pilot sieht {placeholder} im Garten"
    assert texts(json.dumps({"a": text}), "a.json") == ["Der Pilot sieht im Garten"]
    assert message(text) == f"DER PILOT SIEHT {placeholder} IM GARTEN"


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("Der Ring ist %dx%d groß", "Der Ring ist groß"),
        ("Der Hund schläft %ds.", "Der Hund schläft."),
        ("Der Ring ist {width}px breit", "Der Ring ist breit"),
        ("Es sind % d Hunde da", "Es sind Hunde da"),
        ("Der Hund (%s) schläft", "Der Hund schläft"),
        ('Der Hund ("%s") schläft', "Der Hund schläft"),
        ("Der Hund (%s, %s) schläft", "Der Hund schläft"),
        ("Der Hund, {name}, schläft", "Der Hund, schläft"),
        ("Mit v{version} schläft er", "Mit schläft er"),
        ("Es sind {n}GB und {n}min", "Es sind und"),
        ("Hund {br}Neu {x}und da", "Hund Neu und da"),
        ("Er trinkt {x}l’eau und {n}d'or", "Er trinkt l’eau und d'or"),
    ],
)
def test_nothing_is_left_of_a_placeholder_that_means_nothing_alone(text, read):
    assert texts(json.dumps({"a": text}), "a.json") == [read]
    assert message(text, same) == text


@pytest.mark.parametrize(
    "text",
    [
        "<Der Hund schläft.>", "50 % der Leute schlafen", "Die 100%ige Lösung :-)", "Um 12:30 Uhr: ja",
        "Siehe Feld:name", "std::name und Chef:innen", "Eine {Menge, die leer ist}", "a < b und c > d",
        "Er zahlt 5 $US oder $5", "R&D; AT&T",
        "Klammern ( { } ), der Himmel :d und :s.",
    ],
)  # fmt: skip
def test_the_signs_of_a_language_are_no_placeholders(text):
    assert texts(text + " da\n", "a.txt") == [text + " da"]


@pytest.mark.parametrize("address", ["https://x.de/a_(b)", "https://x.de/?q=", "https://x.de/{id}", "mailto:a@b.de"])
def test_an_address_ends_before_the_marks_of_its_sentence(address):
    text = f"Siehe den Hund ({address}), da: {address}."
    assert address not in texts(json.dumps({"a": text}), "a.json")[0] and message(text, same) == text


def test_tags_are_pairs_also_where_they_are_numbers():
    assert message("Der <0>müde</0> Pilot füttert den <1>kleinen Hund</1>.", backwards).count("<0>müde</0>") == 1
    assert texts('{"a": "Der <0>müde</0> Hund"}', "a.json") == ["Der müde Hund"]


@pytest.mark.parametrize(
    ("text", "read", "expected"),
    [
        ("Die Kr&auml;nkte schl&auml;ft.", "Die Kränkte schläft.", "DIE KRÄNKTE SCHLÄFT."),
        ("Hund&nbsp;da", "Hund\u00a0da", "HUND&nbsp;DA"),
        ("Hund &amp; Katze &lt;3", "Hund & Katze <3", "HUND &amp; KATZE &lt;3"),
        ("&quot;Ja&quot;, sagt er &#8211; da", '"Ja", sagt er – da', "&quot;JA&quot;, SAGT ER &#8211; DA"),
        ("Der &lt;b&gt;Hund&lt;/b&gt; da", "Der Hund da", "DER &lt;b&gt;HUND&lt;/b&gt; DA"),
    ],
)
def test_references_to_characters_are_read_and_written(text, read, expected):
    assert texts(json.dumps({"a": text}), "a.json") == [read]
    assert message(text) == expected and message(text, same) == text


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("{count, plural, one {Der Hund da.} other {# Hunde schlafen.}}", ["Der Hund da.", "Hunde schlafen."]),
        ("{g, select, male {Er sieht {name}} female {Sie sieht {name}} other {Wer}}", ["Er sieht", "Sie sieht", "Wer"]),
        ("{n, selectordinal, one {#ter Hund da} other {der # Hund}}", ["Hund da", "der Hund"]),
        ("{a, select, x {{n, plural, =0 {Kein Hund} other {# Hunde}}} other {Nichts}}",
         ["Kein Hund", "Hunde", "Nichts"]),
        ("Du hast {n, plural, offset:1 one {# Hund} other {# Hunde}} da", ["Hund", "Hunde", "Du hast da"]),
        ("Es gibt {0,choice,0#keine|1#einen {1}|1<{0} Hunde} da", ["keine", "einen", "Hunde", "Es gibt da"]),
        ("{n, plural, =0 {Keiner} other {<b>{{count}}</b> Hunde}}", ["Keiner", "Hunde"]),
    ],
)  # fmt: skip
def test_the_branches_of_icu_messages_are_texts(text, read):
    assert texts(json.dumps({"a": text}), "a.json") == read
    assert message(text, same) == text
    keywords = ("plural", "select", "one", "other", "count", "male", "offset:1", "{name}", "#")
    assert all(message(text).count(word) == text.count(word) for word in keywords)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("ein Apfel | {n} Äpfel", ["ein Apfel", "Äpfel"]),
        ("kein Apfel | ein Apfel | {count} Äpfel", ["kein Apfel", "ein Apfel", "Äpfel"]),
        ("{0} Keine|[1,19] Einige|[20,*] Viele", ["Keine", "Einige", "Viele"]),
        ("]-Inf,0[ Nichts|{0} Keiner|]0,Inf] Alle", ["Nichts", "Keiner", "Alle"]),
        ("{1} :value Minute|[2,*] :value Minuten", ["Minute", "Minuten"]),
        ("Es gibt einen Apfel|Es gibt %count% Äpfel", ["Es gibt einen Apfel", "Es gibt Äpfel"]),
        ("%{smart_count} Hund |||| %{smart_count} Hunde", ["Hund", "Hunde"]),
        ("Katze|Katzen", ["Katze", "Katzen"]),
        ("Startseite | Mein Shop", ["Startseite | Mein Shop"]),
        ("{title} | Mein Shop", ["| Mein Shop"]),
        ("Der {{ x | upper }} Hund {n}", ["Der Hund"]),
        ("a || b {n}", ["a || b"]),
    ],
)
def test_the_forms_of_a_plural_between_bars_are_texts(text, read):
    assert texts(json.dumps({"a": text}), "a.json") == read
    assert message(text, same) == text and message(text).count("|") == text.count("|")
    assert not any(
        word in message(text) for part in read for word in part.split() if word.isalpha() and word != word.upper()
    )


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("[b]Hund[/b] da [url=https://x.de/a]hier[/url] [color=red]rot[/color]", "Hund da hier rot"),
        ('[quote="Max"]Der Hund[/quote] [I]da[/i]', "Der Hund da"),
        ("[list][*]Hund[*]Katze[/list]", "\nHund\nKatze"),
        ("Der [code]hund[/code] da [img]https://x.de/a[/img]", "Der da"),
        ("[Donner] Der Hund [sic] schläft [i] da [b]", "[Donner] Der Hund [sic] schläft [i] da [b]"),
    ],
)
def test_codes_of_forums_are_tags_where_they_are_pairs(text, read):
    assert texts(json.dumps({"a": text}), "a.json") == [read] and message(text, same) == text


@pytest.mark.parametrize("escape", [r"\n", r"\r\n", r"\t", r"\n\n"])
def test_escapes_that_a_file_has_once_more_are_line_ends(escape):
    text = f"Der Hund{escape}schläft."
    assert [line for line in texts(json.dumps({"a": text}), "a.json")[0].split("\n") if line] == [
        "Der Hund",
        "schläft.",
    ]
    assert message(text, same) == text and message(text) == f"DER HUND{escape}SCHLÄFT."


@pytest.mark.parametrize("text", [r"Im Ordner C:\neu\test da", r"Der Pfad \\server\neu ist", r"Der \alte Hund\neu"])
def test_a_path_has_no_line_ends(text):
    assert "\n" not in texts(json.dumps({"a": text}), "a.json")[0] and message(text, same) == text


def test_an_element_without_content_keeps_its_spaces():
    for text in ('<i class="icon"></i> Hund', 'Hund <i class="icon"></i>', "Der <b></b> Hund", "Der<b></b> Hund"):
        assert message(text, same) == text


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("<p>Der Hund</p><p>Die Katze</p>", ["Der Hund", "Die Katze"]),
        ("<ul>\n<li>Der <b>Hund</b></li>\n<li>Die Katze</li></ul>", ["Der Hund", "Die Katze"]),
        ("Der Hund<p>Die Katze<p>Der Affe", ["Der Hund", "Die Katze", "Der Affe"]),
        ("<h2>Der Hund</h2>Die Kr&auml;nkte<hr>Die K&auml;lte", ["Der Hund", "Die Kränkte", "Die Kälte"]),
    ],
)
def test_paragraphs_in_a_message_are_texts(text, read):
    assert texts(json.dumps({"a": text}), "a.json") == read
    assert message(text, same) == text and message(text).count("<") == text.count("<")
    assert message(text, backwards).count("&auml;") == text.count("&auml;")


def test_arguments_in_paragraphs_keep_their_order():
    written = po_message("<p>Hund %s</p><p>da %d dort %s</p>", backwards)
    assert re.findall(r"%\S", written) == ["%s", "%d", "%s"]


def test_code_in_a_message_stays():
    assert texts('{"a": "Der <code>Hund</code> schläft"}', "a.json") == ["Der schläft"]


def test_apostrophes_of_icu_messages():
    text = "{n, plural, one {L''eau dort} other {Ça dort '{'ici'}'}}"
    assert texts(json.dumps({"a": text}), "a.json")[0] == "L'eau dort" and message(text, same) == text
    assert message("{n, plural, other {da ist}}", lambda _: AlignedText("it's {so}")) == (
        "{n, plural, other {it''s '{'so'}'}}"
    )


@pytest.mark.parametrize("text", ["{n, plural, one {Hund} other {Hunde}", "{n, plural, Hund}", "{n, plural, one {a}}}"])
def test_an_icu_message_that_cannot_be_read_stays_with_a_warning(text):
    file = parse_file(json.dumps({"a": text, "b": "da"}).encode(), "a.json")
    assert [segment.text for segment in file.segments] == ["da"] and text[:20] in file.warnings[0]
    assert json.loads(file.render([AlignedText("DA")]))["a"] == text


def test_messages_of_flutter():
    arb = '{"@@locale": "de", "hunde": "{n, plural, one{Ein Hund} other{{n} Hunde}}", "@hunde": {"type": "text"}}'
    assert "Ein Hund" in texts(arb, "a.arb") and json.loads(translated(arb, "a.arb", upper))["hunde"] == (
        "{n, plural, one{EIN HUND} other{{n} HUNDE}}"
    )


XLIFF = '<xliff version="1.2"><file><body><trans-unit id="1"><source>{}</source></trans-unit></body></file></xliff>'


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Der &lt;b&gt;Hund&lt;/b&gt; da", "da &lt;b&gt;Hund&lt;/b&gt; Der"),
        ("<![CDATA[Der <b>Hund</b> da]]>", "da &lt;b&gt;Hund&lt;/b&gt; Der"),
        ("Der sch&amp;ouml;ne Hund", "Hund sch&amp;ouml;ne Der"),
        ("Der <g id='1'>große &lt;i&gt;Hund&lt;/i&gt;</g> da", "da <g id='1'>&lt;i&gt;Hund&lt;/i&gt; große</g> Der"),
        ('{{N, plural, =1 {{ein Hund}} other {{<x id="1"/> Hunde da}}}}',
         '{{N, plural, =1 {{Hund ein}} other {{<x id="1"/> da Hunde}}}}'),
    ],
)  # fmt: skip
def test_texts_of_xliff_are_messages(source, expected):
    source, expected = source.replace("{{", "{").replace("}}", "}"), expected.replace("{{", "{").replace("}}", "}")
    written = translated(XLIFF.replace("{}", source), "a.xlf", backwards).decode()
    assert f"<target>{expected}</target>" in written


PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\n'


def po_message(text: str, translate, flags: str = "c-format") -> str:
    """The translation of a catalogue's message."""
    po = PO + f'#, {flags}\nmsgid "{text}"\nmsgstr ""\n'
    return polib.pofile("\n" + translated(po, "a.po", translate).decode())[0].msgstr


def test_the_order_of_arguments_stays_or_they_get_numbers():
    text = "Apfel mit %d gibt %s Hund"
    assert po_message(text, backwards) == "Hund gibt %2$s mit %1$d Apfel"
    assert po_message(text, backwards, "python-format") == "Hund gibt %d mit %s Apfel"
    assert message(text, backwards) == "Hund gibt %d mit %s Apfel"
    assert po_message(text, same) == text
    assert po_message("Der %*d Hund %s da", backwards) == "da Hund %*d Der %s"


def test_a_percent_sign_of_a_translation_is_doubled_where_it_would_be_read():
    assert po_message("Die Hälfte, %s da", lambda _: AlignedText("50% of")).count("50%% of") == 1


CATALOGUE = """
#, c-format
msgid "Der Ring ist %dx%d groß.\\n"
msgstr ""

#, c-format
msgid "Einen Apfel mit %d Ringen gibt %s dem Hund, 50 % der %s."
msgstr ""

#, c-format
msgid "%d Hund sieht %'d von %s, %5.2f%% und %<PRIu64>"
msgid_plural "%d Hunde sehen %'d von %s, %5.2f%% und %<PRIu64>"
msgstr[0] ""
msgstr[1] ""

#, python-format
msgid "Der %(name)s sieht %(n)d Hunde"
msgstr ""

#, python-brace-format
msgid "{name} sieht {0:d} Hunde {x!r}"
msgstr ""

#, qt-format
msgid "Seite %1 von %2"
msgstr ""

#, php-format
msgid "Der %2$s sieht %1$d"
msgstr ""

msgid "Speichern _unter..."
msgstr ""

msgid "_Datei"
msgstr ""
"""


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext is not installed")
@pytest.mark.parametrize("translate", [same, backwards, upper], ids=["same", "backwards", "upper"])
def test_gettext_takes_the_translation(translate, tmp_path):
    header = PO.replace('UTF-8\\n"', 'UTF-8\\n"\n"Plural-Forms: nplurals=2; plural=n != 1;\\n"').replace(
        '""\nmsgstr', '""\nmsgstr ""\n', 1
    )
    path = tmp_path / "a.po"
    path.write_bytes(translated(header + CATALOGUE, "a.po", translate))
    for check in (["--check-format", "--check-domain"], ["--check-accelerators=_"]):
        result = subprocess.run(
            ["msgfmt", *check, "-o", "/dev/null", path], capture_output=True, text=True, check=False
        )
        assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("text", "read", "translation", "expected"),
    [
        ("&Datei", "Datei", "Dossier", "&Dossier"),
        ("Speichern &unter...", "Speichern unter...", "Save under...", "Save &under..."),
        ("_Öffnen", "Öffnen", "Open", "_Open"),
        ("Be_enden", "Beenden", "Quit me", "Quit m_e"),
        ("&Datei", "Datei", "文件", "文件(&D)"),
        ("Suchen && Ersetzen", "Suchen & Ersetzen", "Find & replace", "Find && replace"),
        ("R&D", "R&D", "R&D", "R&D"),
        ("Die Variable user_name ist leer.", "Die Variable user_name ist leer.", "x user_name", "x user_name"),
    ],
)
def test_the_key_of_a_menu_is_not_read_and_stands_before_its_letter_again(text, read, translation, expected):
    po = PO + f'msgid "{text}"\nmsgstr ""\n'
    assert texts(po, "a.po") == [read]
    assert po_message(text, lambda _: AlignedText(translation), "fuzzy") == expected


@pytest.mark.parametrize("space", ["\t", "\t\t", " \t ", "   "])
def test_columns_of_a_message_stay(space):
    written = json.dumps({"a": f"  Der Hund{space}da.  Ein Hund\n   hier "}, ensure_ascii=False).encode()
    file = parse_file(written, "a.json")
    assert [segment.text for segment in file.segments] == ["Der Hund\nda.\nEin Hund\nhier"]
    assert file.render([AlignedText(segment.text) for segment in file.segments]) == written
    assert translated(written, "a.json", upper) == written.replace(b"Der Hund", b"DER HUND").replace(
        b"da.", b"DA."
    ).replace(b"Ein Hund", b"EIN HUND").replace(b"hier", b"HIER")
