"""TMX: a unit in one language gets a variant in the target language; units that have one stay."""

import pytest

from interlinear.documents.files import parse_file
from interlinear.errors import DataError
from tests.interlinear.documents.translations import backwards
from tests.interlinear.documents.translations_of_files import texts, translated

TMX = '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header/><body>{}</body></tmx>\n'
DE = '<tuv xml:lang="de"><seg>eins zwei</seg></tuv>'
CODES = '<bpt i="1">&lt;b&gt;</bpt>zwei<ept i="1">&lt;/b&gt;</ept>'


def written(unit: str) -> str:
    file = parse_file(TMX.format(f"<tu>{DE}</tu>{unit}").encode(), "a.tmx")
    return file.render([backwards(segment.text) for segment in file.segments], "en").decode()


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (f"<tu>{DE}</tu>", f'<tu>{DE}<tuv xml:lang="en"><seg>zwei eins</seg></tuv></tu>'),
        (
            f'<tu tuid="7"><note>da</note>\n {DE}\n</tu>',
            f'<tu tuid="7"><note>da</note>\n {DE}<tuv xml:lang="en"><seg>zwei eins</seg></tuv>\n</tu>',
        ),
        (
            f'<tu><tuv xml:lang="en-GB"><prop type="x">y</prop><seg/></tuv>{DE}</tu>',
            f'<tu><tuv xml:lang="en-GB"><prop type="x">y</prop><seg>zwei eins</seg></tuv>{DE}</tu>',
        ),
        (
            f'<tu><tuv xml:lang="de"><seg>eins {CODES}</seg></tuv></tu>',
            f'<tu><tuv xml:lang="de"><seg>eins {CODES}</seg></tuv>'
            f'<tuv xml:lang="en"><seg>{CODES} eins</seg></tuv></tu>',
        ),
        (
            '<tu><tuv xml:lang="de"><seg>eins <hi>zwei</hi> <ph x="1">%s</ph></seg></tuv></tu>',
            '<tu><tuv xml:lang="de"><seg>eins <hi>zwei</hi> <ph x="1">%s</ph></seg></tuv>'
            '<tuv xml:lang="en"><seg><hi>zwei</hi> eins <ph x="1">%s</ph></seg></tuv></tu>',
        ),
        (
            f'<tu><tuv xml:lang="de"><seg><hi>eins {CODES}</hi></seg></tuv></tu>',
            f'<tu><tuv xml:lang="de"><seg><hi>eins {CODES}</hi></seg></tuv>'
            f'<tuv xml:lang="en"><seg><hi>{CODES} eins</hi></seg></tuv></tu>',
        ),
        (
            f'<tu>{DE}<tuv xml:lang="fr"><seg>un deux</seg></tuv></tu>',
            f'<tu>{DE}<tuv xml:lang="fr"><seg>un deux</seg></tuv></tu>',
        ),
    ],
)
def test_units(unit, expected):
    assert written(unit) == TMX.format(f'<tu>{DE}<tuv xml:lang="en"><seg>zwei eins</seg></tuv></tu>{expected}')


FR = '<tuv xml:lang="fr"><seg/></tuv>'
NEW = '<tuv xml:lang="en"><seg>zwei eins</seg></tuv>'


@pytest.mark.parametrize(
    ("unit", "expected"),
    [
        (f"{DE}{FR}", f"{DE}{NEW}{FR}"),
        (f'{FR}{DE}<tuv xml:lang="EN"><seg></seg></tuv>', f'{FR}{DE}<tuv xml:lang="EN"><seg>zwei eins</seg></tuv>'),
        (f'{FR}<tuv lang="en"><seg/></tuv>{DE}', f'{FR}<tuv lang="en"><seg>zwei eins</seg></tuv>{DE}'),
        (f'{DE}<tuv xml:lang="en-GB"><seg/></tuv><tuv xml:lang="en"><seg/></tuv>',
         f'{DE}<tuv xml:lang="en-GB"><seg/></tuv>{NEW}'),
        (f'{DE}<tuv xml:lang="en-GB"/>', f'{DE}{NEW}<tuv xml:lang="en-GB"/>'),
    ],
)  # fmt: skip
def test_empty_variants_in_other_languages_stay(unit, expected):
    assert written(f"<tu>{unit}</tu>").partition("</tu>")[2].startswith(f"<tu>{expected}</tu>")


def test_a_language_that_is_not_known_is_said_to_be_so():
    assert b'<tuv xml:lang="und">' in translated(TMX.format(f"<tu>{DE}</tu>"), "a.tmx", backwards)


def test_a_memory_in_two_languages_has_nothing_to_translate():
    with pytest.raises(DataError, match="no text to translate"):
        texts(TMX.format(f'<tu>{DE}<tuv xml:lang="en"><seg>one</seg></tuv></tu>'), "a.tmx")


@pytest.mark.parametrize("root", ["<xliff/>", '<!DOCTYPE tmx [<!ENTITY x "y">]><tmx/>'])
def test_what_is_no_memory_is_refused(root):
    with pytest.raises(DataError, match=r"is not TMX|declares entities"):
        parse_file(root.encode(), "a.tmx")
