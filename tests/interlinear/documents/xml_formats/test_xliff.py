"""XLIFF: units without target get one, with the codes of their source in balance and in order."""

import pytest

from interlinear.documents.files import parse_file
from interlinear.errors import DataError
from tests.interlinear.documents.translations import backwards
from tests.interlinear.documents.translations_of_files import texts, translated

NAMESPACE = "urn:oasis:names:tc:xliff:document:1.2"
XLIFF = f'<?xml version="1.0"?>\n<xliff version="1.2" xmlns="{NAMESPACE}"><body>{{}}</body></xliff>\n'


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ("<source>eins zwei</source>", "<source>eins zwei</source><target>zwei eins</target>"),
        (
            '<source>eins zwei</source><target state="new" xml:lang="en"/><note>da</note>',
            '<source>eins zwei</source><target xml:lang="en">zwei eins</target><note>da</note>',
        ),
        (
            "<source>eins zwei</source><target>fertig da</target>",
            "<source>eins zwei</source><target>fertig da</target>",
        ),
        (
            '<source>eins <g id="1">zwei</g> <x id="2"/></source>',
            '<source>eins <g id="1">zwei</g> <x id="2"/></source><target><g id="1">zwei</g> eins <x id="2"/></target>',
        ),
        (
            '<source>eins <bpt id="1">&lt;b&gt;</bpt>zwei<ept id="1">&lt;/b&gt;</ept></source>',
            '<source>eins <bpt id="1">&lt;b&gt;</bpt>zwei<ept id="1">&lt;/b&gt;</ept></source>'
            '<target><bpt id="1">&lt;b&gt;</bpt>zwei<ept id="1">&lt;/b&gt;</ept> eins</target>',
        ),
        (
            '<source>a b. c</source><seg-source><mrk mtype="seg">a b.</mrk> <mrk mtype="seg">c</mrk></seg-source>',
            '<source>a b. c</source><seg-source><mrk mtype="seg">a b.</mrk> <mrk mtype="seg">c</mrk></seg-source>'
            '<target><mrk mtype="seg">. b a</mrk> <mrk mtype="seg">c</mrk></target>',
        ),
    ],
)
def test_units(unit, expected):
    around = "<trans-unit>{}</trans-unit><trans-unit><source>x</source><target{}</trans-unit>"
    written = translated(XLIFF.format(around.format(unit, "/>")), "a.xlf", backwards).decode()
    assert written == XLIFF.format(around.format(expected, ">x</target>"))


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        ('<target state="new">eins zwei</target>', "<target>zwei eins</target>"),
        (
            '<target xml:lang="en" state="needs-translation">eins\nzwei</target>',
            '<target xml:lang="en">zwei eins</target>',
        ),
        ('<target state="new">one two</target>', None),
        ('<target state="translated">eins zwei</target>', None),
        ("<target>eins zwei</target>", None),
    ],
)
def test_a_copy_of_the_source_is_translated_if_its_state_is_new(unit, expected):
    around = "<trans-unit><source>eins zwei</source>{}</trans-unit><trans-unit><source>da</source></trans-unit>"
    written = translated(XLIFF.format(around.format(unit)), "a.xlf", backwards).decode()
    assert around.format(expected or unit).removesuffix("</trans-unit>") in written


def test_a_copy_of_the_source_in_an_initial_segment_is_translated():
    segment = '<segment state="initial"><source>eins zwei</source><target>{}</target></segment>'
    xliff = f'<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0"><unit>{segment}</unit></xliff>'
    assert segment.format("zwei eins") in translated(xliff.format("eins zwei"), "a.xlf", backwards).decode()


def test_texts_of_codes_stay():
    source = "<source>eins <ph id='1'>&lt;img alt='<sub>ein Bild</sub>'&gt;</ph> zwei</source>"
    assert texts(XLIFF.format(f"<trans-unit>{source}</trans-unit>"), "a.xlf") == ["eins zwei"]


BOLD = '<bpt id="1">&lt;b&gt;</bpt>zwei<ept id="1">&lt;/b&gt;</ept>'
PART = '<mrk mtype="seg" mid="0">{}</mrk>'


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (f'<g id="0">eins {BOLD}</g>', f'<g id="0">{BOLD} eins</g>'),
        (f'<g id="0"><g id="2">eins {BOLD}</g></g>', f'<g id="0"><g id="2">{BOLD} eins</g></g>'),
        ('<pc id="1">eins <sc id="2"/>zwei drei<ec startRef="2"/> vier</pc>',
         '<pc id="1">vier <sc id="2"/>drei zwei<ec startRef="2"/> eins</pc>'),
    ],
)  # fmt: skip
def test_pairs_of_codes_inside_elements_stay_around_their_words(source, expected):
    written = translated(XLIFF.format(f"<trans-unit><source>{source}</source></trans-unit>"), "a.xlf", backwards)
    assert f"</source><target>{expected}</target>" in written.decode()


def test_pairs_of_codes_inside_segments_stay_around_their_words():
    source = f"<source>eins {BOLD}</source><seg-source>{PART.format(f'eins {BOLD}')}</seg-source>"
    written = translated(XLIFF.format(f"<trans-unit>{source}</trans-unit>"), "a.xlf", backwards).decode()
    assert f"<target>{PART.format(f'{BOLD} eins')}</target>" in written


LINES = "eins zwei\ndrei vier\r\n\n  fünf sechs\n"
LINES_BACKWARDS = "zwei eins\nvier drei\r\n\n  sechs fünf\n"
KEPT = ' xml:space="preserve"'


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (f"<trans-unit{KEPT}><source>{LINES}</source></trans-unit>", LINES_BACKWARDS),
        (f"<group{KEPT}><trans-unit><source>{LINES}</source></trans-unit></group>", LINES_BACKWARDS),
        (f"<trans-unit><source{KEPT}>{LINES}</source></trans-unit>", LINES_BACKWARDS),
        (f'<trans-unit{KEPT}><source><g id="1">eins zwei&#10;drei</g> <ph>a\nb</ph></source></trans-unit>',
         '<g id="1">zwei eins&#10;drei</g> <ph>a\nb</ph>'),
        (f"<trans-unit{KEPT}><source>x</source><seg-source>{PART.format(LINES)}</seg-source></trans-unit>",
         PART.format(LINES_BACKWARDS)),
        (f'<group{KEPT}><trans-unit xml:space="default"><source>eins\nzwei</source></trans-unit></group>', "zwei eins"),
    ],
)  # fmt: skip
def test_line_ends_stay_where_white_space_is_kept(unit, expected):
    assert f"<target>{expected}</target>" in translated(XLIFF.format(unit), "a.xlf", backwards).decode()


@pytest.mark.parametrize(
    ("attributes", "target", "expected"),
    [
        ('version="2.0" srcLang="de"', "en", 'version="2.0" srcLang="de" trgLang="en"'),
        ('srcLang="de" version="2.1" ', "pt-BR", 'srcLang="de" version="2.1" trgLang="pt-BR"'),
        ('version="2.0" trgLang="en-GB"', "en", 'version="2.0" trgLang="en-GB"'),
        ('version="2.0" srcLang="de"', "und", 'version="2.0" srcLang="de"'),
        ('version="1.2"', "en", 'version="1.2"'),
    ],
)
def test_version_2_says_the_language_of_the_translation_if_it_did_not(attributes, target, expected):
    xliff = '<xliff {}><file target-language=""><segment><source>eins zwei</source>{}</segment></file></xliff>'
    file = parse_file(xliff.format(attributes, "").encode(), "a.xlf")
    written = file.render([backwards(segment.text) for segment in file.segments], target).decode()
    assert written == xliff.format(expected, "<target>zwei eins</target>")


def test_version_2_and_what_is_not_to_be_translated():
    xliff = (
        '<xliff version="2.0" xmlns="urn:oasis:names:tc:xliff:document:2.0"><file><unit><segment><source>eins '
        '<pc id="1">zwei</pc></source></segment></unit><unit translate="no"><segment><source>nein</source></segment>'
        "</unit></file></xliff>"
    )
    written = translated(xliff, "a.xliff", backwards).decode()
    assert (
        '</source><target><pc id="1">zwei</pc> eins</target></segment>' in written
        and "nein</source></segment>" in written
    )


def test_another_root_is_refused():
    with pytest.raises(DataError, match="not XLIFF"):
        texts("<html>eins zwei</html>", "a.xlf")
