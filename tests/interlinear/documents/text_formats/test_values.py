"""YAML, CSV, Java properties, Apple's strings, and JSON's keys: values with text are translated, and nothing else
changes."""

import csv
import io

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from interlinear.documents import AlignedText
from interlinear.documents.files import parse_file
from interlinear.documents.formats import ReadOptions
from interlinear.documents.values.values import is_text
from interlinear.errors import DataError
from tests.interlinear.documents.translations import in_capitals, same
from tests.interlinear.documents.translations_of_files import as_bytes, texts, translated


def texts_of(data: str, name: str, *keys: str) -> list[str]:
    return [segment.text for segment in parse_file(as_bytes(data), name, ReadOptions(keys)).segments]


WORDS = (
    "Hund rot ja de OK STOP E-Mail z.B. usw. Kund_innen KundInnen jedeR und/oder Ja/Nein rot-grün 24-stündig 3fach "
    "Formel-1"
)
NO_TEXTS = (
    "de-DE en_US zh-Hans #ff0000 2026-11-29 2026-11-29T10:00 10:00 btn_primary MAX_SIZE camelCaseId col-md-6 "
    "home.title com.example.app logo.png Bericht.pdf /usr/bin ../a img/a/b.png https://a.b/c mailto:a@b.de "
    "text/html 16px v1.2.3 123e4567-e89b-12d3-a456-426614174000 d41d8cd98f00b204e9800998ecf8427e @string/app "
    "App\\Models\\User Foo::Bar PT30M x1 item-12 h2"
)


def test_what_is_a_text():
    assert [word for word in WORDS.split() if not is_text(word)] == []
    assert [value for value in NO_TEXTS.split() if is_text(value)] == []
    assert not is_text("rgb(0, 10, 20)") and not is_text("C:\\Program Files\\x y") and not is_text("%d.%m.%Y")
    assert not is_text("de", "lang") and is_text("de", "a") and is_text("Deutsch", "language")


@pytest.mark.parametrize("unit", ["aAb1", "a_", "a.", "a-", "a/", "A1", "--a", "a\\", "1.", "::a"])
def test_a_long_value_is_judged_in_time_that_grows_with_its_length(unit):
    assert is_text(unit * 50_000 + "!?")


YAML = """# Kommentar ä
de:
  a: Ein Hund  # noch einer
  b: "Gr\\u00f6\\u00dfe da"
  c: 'er''s hier'
  d: |
    Zeile eins
      mehr da

  e: >-
    gefaltet und
    weiter
  f: &x mehr
    zeilig
  g: *x
  h: [eins da, "zwei: da", {k: vier hier}]
  no: no
  i: 12
  j: !ruby/object foo
  date: 2026-11-29
  color: "#ff0000"
  order:
    - :year
"""


def test_values_of_yaml():
    assert texts(YAML, "a.yml") == [
        "Ein Hund", "Größe da", "er's hier", "Zeile eins\nmehr da", "gefaltet und weiter", "mehr zeilig", "eins da",
        "zwei: da", "vier hier",
    ]  # fmt: skip
    assert translated(YAML, "a.yml", same).decode() == YAML
    written = translated(YAML, "a.yml", in_capitals).decode()
    assert "  a: EIN HUND  # noch einer\n" in written and '  b: "GR\\u00d6SSE DA"' in written
    assert "  d: |\n    ZEILE EINS\n      MEHR DA\n\n  e: >-\n    GEFALTET UND WEITER\n  f: &x MEHR ZEILIG\n" in written
    assert yaml.safe_load(written.replace("!ruby/object", ""))["de"]["h"] == ["EINS DA", "ZWEI: DA", {"k": "VIER HIER"}]


def test_the_language_that_is_the_only_key_becomes_that_of_the_translation():
    file = parse_file(b"de:\n  a: Ein Hund\n", "de.yml")
    assert file.render([AlignedText("A dog")], "en") == b"en:\n  a: A dog\n"
    two = parse_file(b"de:\n  a: Ein Hund\nfr: x\n", "de.yml")
    assert two.render([AlignedText("A dog"), AlignedText("y")], "en") == b"de:\n  a: A dog\nfr: y\n"


@pytest.mark.parametrize(
    "text", ["No", "12", "a: b", "a #b", "- a", "@a", "null", "", "a\nb", "a\u2028b", "'a' \"b\"", "~"]
)
def test_any_translation_is_the_same_string_of_yaml(text):
    source = "a: Hund\nb: 'Hund'\nc: \"Hund\"\nd: |\n  Hund\ne: [Hund]\nf: >\n  Hund\n"
    file = parse_file(source.encode(), "a.yml")
    read = yaml.safe_load(file.render([AlignedText(text)] * 6).decode())
    assert read == {"a": text, "b": text, "c": text, "d": text + "\n", "e": [text], "f": text + "\n"}


LETTERS = st.text("abÄ .,:#'\"\\-{}[]!&*|>%@`?\n\t0", max_size=12)
SIMPLE = st.recursive(
    LETTERS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(LETTERS, inner, max_size=3), max_leaves=6
)


@given(SIMPLE, st.booleans(), st.sampled_from([None, "'", '"', "|", ">"]))
@settings(max_examples=20, deadline=None)
def test_random_yaml(value, in_flow, style):
    source = yaml.dump({"x": "Hund", "y": value}, default_flow_style=in_flow, default_style=style, allow_unicode=True)
    assert translated(source, "a.yml", same).decode() == source
    file = parse_file(source.encode(), "a.yml")
    read = yaml.safe_load(file.render([AlignedText(f"{segment.text}: x") for segment in file.segments]).decode())
    assert read["x"] == "Hund: x" and type(read["y"]) is type(value)


CSV = '\ufeffid;titel;text;farbe\r\n1;Ein Hund;"da; ""hier""\r\nzwei";#ff0000\r\n2;rot;;#00ff00\r\n'


def test_cells_of_csv():
    assert texts(CSV, "a.csv") == ["Ein Hund", 'da; "hier"\nzwei', "rot"]
    assert translated(CSV, "a.csv", same).decode() == CSV
    assert translated(CSV, "a.csv", in_capitals).decode() == CSV.replace("Ein", "EIN").replace("Hund", "HUND").replace(
        'da; ""hier""\r\nzwei', 'DA; ""HIER""\r\nZWEI'
    ).replace("rot", "ROT")


def test_columns_are_named_by_name_or_number():
    assert texts_of(CSV, "a.csv", "titel") == ["Ein Hund", "rot"]
    assert texts_of(CSV, "a.csv", "3") == ['da; "hier"\nzwei']
    with pytest.raises(DataError, match=r"no column 'x'\. Name one of its 4 columns: id, titel, text, farbe"):
        texts_of(CSV, "a.csv", "x")


def test_tables_without_names_and_without_quotes():
    assert texts("Ein Hund läuft.\tda\nzwei\thier\n", "a.tsv") == ["Ein Hund läuft.", "da", "zwei", "hier"]
    tsv = 'Er sagt "ja\tda\n"Ein Hund\thier\n'
    assert texts(tsv, "a.tsv") == ['Er sagt "ja', "da", '"Ein Hund', "hier"]
    assert translated(tsv, "a.tsv", same).decode() == tsv
    assert texts("sep=|\na|b da\n1|Ein Hund\n", "a.csv") == ["Ein Hund"]


@given(st.lists(st.lists(LETTERS, min_size=2, max_size=3), min_size=1, max_size=4), st.sampled_from(",;\t"))
@settings(max_examples=20, deadline=None)
def test_random_csv(rows, delimiter):
    written = io.StringIO()
    table = [["Ein langer Satz.", "da"]] * (len(rows) + 1) + rows  # half of a column must be text
    csv.writer(written, delimiter=delimiter).writerows(table)
    source = written.getvalue()
    assert translated(source, "a.csv", same).decode() == source
    read = csv.reader(io.StringIO(translated(source, "a.csv", in_capitals).decode(), newline=""), delimiter=delimiter)
    assert [len(row) for row in read] == [len(row) for row in table]


PROPERTIES = """# Kommentar = nichts
! auch = nicht
titel=Ein Hund
mit.leer   Ein Satz
lang : Das ist \\
    ein langer \\
    Satz
gr\\u00f6\\u00dfe=Gr\\u00f6\\u00dfe \\ud83d\\udc15
leer=
arg=Ich hab''s mit {0}
farbe=#ff0000
"""


def test_values_of_java_properties():
    assert texts(PROPERTIES, "a.properties") == [
        "Ein Hund", "Ein Satz", "Das ist ein langer Satz", "Größe 🐕", "Ich hab's mit",
    ]  # fmt: skip
    assert translated(PROPERTIES, "a.properties", same).decode() == PROPERTIES
    written = translated(PROPERTIES, "a.properties", in_capitals).decode()
    assert "lang : DAS IST EIN LANGER SATZ\ngr\\u00f6\\u00dfe=GR\\u00d6SSE \\ud83d\\udc15\n" in written
    assert "arg=ICH HAB''S MIT {0}\n" in written


def test_characters_of_properties_are_escaped_where_the_encoding_has_them_not():
    for encoding, data in (("latin-1", b"a=GR\xd6SSE \\u0416"), ("utf-8", "a=GRÖSSE Ж".encode())):
        file = parse_file("a=Größe".encode(encoding), "a.properties")
        assert file.render([AlignedText("GRÖSSE Ж")]) == data


STRINGS = '/* "x" = "y"; */\n"a" = "Ein \\"Hund\\"\\nda";\n// "b" = "c";\nkey = "Größe da";\n'


def test_values_of_apples_strings():
    assert texts(STRINGS.encode("utf-16"), "a.strings") == ['Ein "Hund"\nda', "Größe da"]
    assert translated(STRINGS.encode("utf-16"), "a.strings", same) == STRINGS.encode("utf-16")
    assert '"a" = "EIN \\"HUND\\"\\nDA";' in translated(STRINGS, "a.strings", in_capitals).decode()


JSON = '{"id": "btn_primary", "title": "Hund", "menu": {"title": "rot", "lang": "de", "x": ["#fff", "da"]}, "@a": "da"}'


def test_keys_of_json():
    assert texts(JSON, "a.json") == ["Hund", "rot", "da"]
    assert texts_of(JSON, "a.json", "title") == ["Hund", "rot"]
    assert texts_of(JSON, "a.json", "menu.title") == ["rot"]
    assert texts_of(JSON, "a.json", "menu") == ["rot", "da"]
    with pytest.raises(DataError, match="under the key 'titel'"):
        texts_of(JSON, "a.json", "titel")
    assert translated(JSON, "a.json", same).decode() == JSON


@pytest.mark.parametrize("part", ["/* ", "www.", '"a = ', "a = ", '"a" '])
def test_what_never_ends_in_a_file_of_apple_is_read_in_linear_time(part):
    """Twenty thousand of them took 110 s."""
    with pytest.raises(DataError):
        parse_file(part.encode() * 100_000, "a.strings")
