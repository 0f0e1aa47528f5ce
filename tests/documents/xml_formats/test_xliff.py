"""XLIFF: units without target get one, with the codes of their source in balance and in order."""

import pytest

from seq2seq.errors import DataError
from tests.documents.translations import backwards
from tests.documents.translations_of_files import texts, translated

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
