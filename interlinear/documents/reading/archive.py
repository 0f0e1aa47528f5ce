"""Zip archives of documents: read with limits, and written with some of their parts replaced."""

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from interlinear.errors import DataError

MAX_ENTRIES = 10_000
MAX_EXPANDED = 400_000_000  # bytes of all parts together
MAX_PART = 60_000_000  # bytes of one part that is parsed
MAX_RATIO = 200  # ratio of expanded to compressed bytes of a part that is parsed; deflated XML has 5 to 30
CHUNK = 1 << 20
LOCAL_HEADER = 30  # bytes of a part's own header, before its name
ENCRYPTED, UTF_8 = 1, 1 << 11  # bits of a zip entry's flags: its encryption, and the encoding of its name
BINARY_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"  # OLE compound files: .doc, .xls, and encrypted .docx
ENCRYPTED_STREAM = "EncryptedPackage".encode("utf-16-le")


@dataclass(frozen=True)
class Archive:
    """A zip archive in memory; nothing is ever unpacked to disk.

    entries: the parts by name, with slashes, whichever the archive has.
    """

    data: bytes
    where: str
    entries: Mapping[str, zipfile.ZipInfo]

    @staticmethod
    def open(data: bytes, where: str) -> "Archive":
        """Check an archive's directory. Raises DataError for a file that is no archive, is encrypted or damaged, has
        unsafe names, or expands beyond the limits."""
        if data.startswith(BINARY_OFFICE):
            if ENCRYPTED_STREAM in data:
                raise DataError(where, "is encrypted with a password", "save it without password")
            raise DataError(where, "is in the old binary format of Office", "save it in its present format")
        if not data.startswith(b"PK"):
            raise DataError(where, "is not of this format: it is no zip archive", "check its suffix")
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                infos = archive.infolist()
        except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, OverflowError):
            raise damaged(where) from None
        if len(infos) > MAX_ENTRIES:
            raise DataError(where, f"has {len(infos):,} parts, and at most {MAX_ENTRIES:,} are read", "divide it")
        if sum(info.file_size for info in infos) > MAX_EXPANDED:
            raise DataError(where, f"expands to more than {MAX_EXPANDED // 10**6} MB", "divide it")
        for info in infos:
            check_entry(info, where)
        entries = {with_slashes(info.filename): info for info in infos}
        if len(entries) < len(infos):
            raise DataError(where, "has two parts of one name", "save it again with the program that made it")
        return Archive(data, where, entries)

    @cached_property
    def _by_lower_case(self) -> Mapping[str, str]:
        return {name.lower(): name for name in self.entries}

    def find(self, name: str) -> str | None:
        """The name of a part as the archive has it; programs do not agree on case (ISO/IEC 29500-2, 6.2.2.3)."""
        return name if name in self.entries else self._by_lower_case.get(name.lower())

    def read(self, name: str) -> bytes:
        """A part's content. Raises DataError if it is missing, too large or damaged."""
        found = self.find(name)
        if found is None:
            raise DataError(self.where, f"is not of this format: it has no part {name[:80]}", "check its suffix")
        info = self.entries[found]
        packed = self._packed(info)
        if info.file_size > MAX_PART or info.file_size > MAX_RATIO * max(len(packed), 10_000):
            raise DataError(self.where, f"has a part of {info.file_size / 1e6:,.0f} MB, {name[:80]}", "divide it")
        content = packed
        if info.compress_type == zipfile.ZIP_DEFLATED:
            unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
            try:
                content = unpacker.decompress(packed, info.file_size + 1)
            except zlib.error:
                raise damaged(self.where) from None
            if not unpacker.eof or unpacker.unused_data:  # its packed size, and with it the ratio, is not the true one
                raise damaged(self.where)
        if len(content) != info.file_size or zlib.crc32(content) != info.CRC:
            raise damaged(self.where)
        return content

    def _packed(self, info: zipfile.ZipInfo) -> bytes:
        """A part's compressed bytes. Raises DataError."""
        try:
            signature, name, extra = struct.unpack_from("<4s22xHH", self.data, info.header_offset)
        except struct.error:
            raise damaged(self.where) from None
        start = info.header_offset + LOCAL_HEADER
        written = self.data[start : start + name].decode("utf-8" if info.flag_bits & UTF_8 else "cp437", "replace")
        start += name + extra
        if signature != b"PK\3\4" or written != info.orig_filename or start + info.compress_size > len(self.data):
            raise damaged(self.where)
        return self.data[start : start + info.compress_size]

    def replace(self, parts: Mapping[str, bytes]) -> bytes:
        """The archive with other contents of these parts, which have their names in `entries`. Order, names, dates and
        all other parts stay."""
        written = io.BytesIO()
        try:
            with zipfile.ZipFile(io.BytesIO(self.data)) as old, zipfile.ZipFile(written, "w") as new:
                for name, info in self.entries.items():
                    copy_entry(old, new, info, parts.get(name))
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError):
            raise damaged(self.where) from None
        return written.getvalue()


def with_slashes(name: str) -> str:
    """A name of a part; some programs for Windows write it with backslashes."""
    return name.replace("\\", "/")


def check_entry(info: zipfile.ZipInfo, where: str) -> None:
    """Raises DataError for a part with an unsafe name, one that is encrypted, or packed in an unusual way."""
    name = with_slashes(info.filename)
    if name.startswith("/") or ":" in name.split("/")[0] or ".." in name.split("/") or not name:
        raise DataError(where, f"has a part with an unsafe name, {name[:80]!r}", "save it with its program")
    if info.flag_bits & ENCRYPTED:
        raise DataError(where, "is encrypted with a password", "save it without password")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DataError(where, f"packs {name[:80]} in a way that documents do not", "save it with its program")


def copy_entry(old: zipfile.ZipFile, new: zipfile.ZipFile, info: zipfile.ZipInfo, content: bytes | None) -> None:
    """Write an entry, with another content if there is one; otherwise piece by piece."""
    entry = zipfile.ZipInfo(info.filename, info.date_time)
    entry.compress_type, entry.external_attr = info.compress_type, info.external_attr
    if content is not None:
        new.writestr(entry, content)
        return
    entry.file_size = info.file_size
    with old.open(info) as source, new.open(entry, "w") as target:
        while chunk := source.read(CHUNK):
            target.write(chunk)


def damaged(where: str) -> DataError:
    return DataError(where, "is a damaged archive", "save it again with the program that made it")
