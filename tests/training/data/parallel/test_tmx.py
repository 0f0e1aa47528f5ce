"""TMX as translation tools export it; hostile XML is refused, and memory does not grow with the file."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from interlinear.errors import DataError
from training.data.parallel.tmx import TmxFile, infer_languages

HEADER = '<header creationtool="x" segtype="sentence" srclang="{source}" datatype="plaintext"/>'


def unit(*variants: tuple[str, str]) -> str:
    return "<tu>" + "".join(f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in variants) + "</tu>"


def write(path: Path, *units: str, source: str = "*all*", encoding: str = "utf-8") -> Path:
    text = (
        f'<?xml version="1.0" encoding="{encoding}"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n'
        f'<tmx version="1.4">{HEADER.format(source=source)}<body>{"".join(units)}</body></tmx>'
    )
    path.write_bytes(text.encode(encoding))
    return path


def pairs(path: Path) -> list[tuple[str, str]]:
    return list(TmxFile(path, ("de", "en")).pairs())


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_units_become_pairs_without_codes(tmp_path: Path, encoding: str):
    units = [
        unit(("en-US", "A <bpt i='1'>&lt;b&gt;</bpt>dog<ept i='1'/> &amp; <hi>more</hi>"), ("de", "Für")),
        unit(("DE-de", "Ein\n   Satz"), ("fr", "Une"), ("en", "One"), ("EN", "Another")),
        unit(("de", "nur <ph><sub>hidden</sub></ph>deutsch")),
    ]
    path = write(tmp_path / "a.tmx", *units, encoding=encoding)
    assert pairs(path) == [("Für", "A dog & more"), ("Ein Satz", "One"), ("nur deutsch", "")]


def test_languages_are_inferred_from_two(tmp_path: Path):
    path = write(tmp_path / "a.tmx", unit(("en-US", "a"), ("de-DE", "b")), unit(("en-GB", "a")), source="de-DE")
    assert infer_languages(path) == ("de", "en")
    assert infer_languages(write(path, unit(("en-US", "a"), ("de-DE", "b")))) == ("en", "de")
    assert infer_languages(write(path, unit(("en", "a"), ("de", "b"), ("fr", "c")))) is None


def refusal(path: Path) -> str:
    with pytest.raises(DataError) as refused:
        pairs(path)
    return str(refused.value)


def test_a_file_without_the_languages_names_those_it_has(tmp_path: Path):
    path = write(tmp_path / "a.tmx", unit(("de", "a"), ("fr", "b")), unit(("it", "c"), ("fr", "d")))
    assert "has no unit with de and en, only de, fr, it. Name two of its languages with --languages." in refusal(path)
    for units in ([], ['<tu><tuv xml:lang="de"/><tuv xml:lang="en"/></tu>']):
        assert "no unit has a <seg>, the element with its text" in refusal(write(path, *units))
        with pytest.raises(DataError, match="no unit has a <seg>"):
            infer_languages(path)


def test_hostile_and_broken_xml_is_refused(tmp_path: Path):
    path = tmp_path / "a.tmx"
    path.write_text('<!DOCTYPE tmx [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;">]><tmx><body>&b;</body></tmx>')
    assert f"{path}, line 1: declares the entity 'a'" in refusal(path)
    (tmp_path / "secret").write_text("secret")
    path.write_text(f'<!DOCTYPE tmx [<!ENTITY a SYSTEM "{(tmp_path / "secret").as_uri()}">]><tmx>&a;</tmx>')
    assert "declares the entity 'a'" in refusal(path)
    path.write_text(f'<!DOCTYPE tmx [<!ENTITY % a SYSTEM "{(tmp_path / "secret").as_uri()}">%a;]><tmx></tmx>')
    assert "declares the entity 'a'" in refusal(path)
    path.write_text('<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx><seg>&nbsp;</seg></tmx>')
    assert f"{path}, line 2: uses the entity '&nbsp;', which it does not declare" in refusal(path)
    path.write_text("<tmx>\n<body></tmx>")
    assert f"{path}, line 2: is not well-formed XML: mismatched tag" in refusal(path)
    path.write_text("<html></html>")
    assert f"{path}: is no TMX: its root is <html>" in refusal(path)


def test_memory_does_not_grow_with_the_file(tmp_path: Path):
    def peak(units: int) -> int:
        path = write(tmp_path / "a.tmx", *(unit(("de", f"Satz {i}"), ("en", f"One {i}")) for i in range(units)))
        tracemalloc.start()
        count = sum(1 for _ in TmxFile(path, ("de", "en")).pairs())
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert count == units
        return peak_bytes

    few = peak(3000)
    assert peak(12_000) < 1.2 * few


def test_a_compressed_file_is_read_before_it_ends(tmp_path: Path):
    import gzip

    path = tmp_path / "a.tmx.gz"
    plain = write(tmp_path / "a.tmx", *[unit(("de", f"Satz {i}"), ("en", f"One {i}")) for i in range(3000)])
    path.write_bytes(gzip.compress(plain.read_bytes()))
    found: Iterator[tuple[str, str]] = TmxFile(path, ("de", "en")).pairs()
    assert next(found) == ("Satz 0", "One 0")
    assert sum(1 for _ in found) == 2999
