"""Functions that damage files: flip bits, truncate, replace, swap, delete."""

from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

Damage = Callable[[Path, Path], None]  # kinds of damage; some of them replace a file by another one


def flipped(where: float, bit: int) -> Damage:
    def damage(path: Path, _other: Path) -> None:
        content = bytearray(path.read_bytes())
        content[int(where * (len(content) - 1))] ^= 1 << bit
        _replace(path, bytes(content))

    return damage


def cut(where: float) -> Damage:
    return lambda path, _other: _replace(path, path.read_bytes()[: int(where * path.stat().st_size)])


def replaced(content: bytes) -> Damage:
    return lambda path, _other: _replace(path, content)


def swapped(path: Path, other: Path) -> None:
    _replace(path, other.read_bytes())


def gone(path: Path, _other: Path) -> None:
    path.unlink()


def _replace(path: Path, content: bytes) -> None:
    path.unlink()  # the file may be memory-mapped, or hard-linked elsewhere
    path.write_bytes(content)


_share = st.floats(0, 1)
_odd = [b"", b"{}", b"[]", b"null", b"1", b"[" * 100_000, b'{"format": 1e400}', b"\xff", b"\0" * 64, b"\x7f" * 64]
DAMAGE = st.one_of(
    st.builds(flipped, _share, st.integers(0, 7)),
    st.builds(flipped, _share, st.integers(0, 7)),
    st.builds(cut, _share),
    st.builds(replaced, st.sampled_from(_odd) | st.binary(max_size=64)),
    st.just(swapped),
    st.just(gone),
)
