"""Glossaries are kept beside the keys, for each key its own, up to a limit."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import date

import pytest

from interlinear.generation.terms import GlossaryEntry
from interlinear.generation.terms.entries import write_entries
from service.auth.key_store import KeyStore
from service.store.glossary_store import GlossariesFullError, Glossary, GlossaryStore

ENTRIES = (GlossaryEntry("Hund", "hound"), GlossaryEntry("Größe XL", "size, “XL”"))


def add(store: GlossaryStore, key: str, name: str = "dogs", per_key: int = 5) -> Glossary:
    return store.add(key, name, "de", "en", ENTRIES, per_key)


def test_a_glossary_is_found_by_its_key_alone(uri: str) -> None:
    store = GlossaryStore(uri)
    glossary, other = add(store, "app"), add(store, "other")
    assert store.list("app") == [glossary] and glossary.entry_count == 2
    assert store.find("app", glossary.id) == glossary
    assert store.read_entries("app", glossary.id) == write_entries(ENTRIES)
    for key, glossary_id in (("other", glossary.id), ("app", "unknown")):
        assert store.find(key, glossary_id) is None and store.read_entries(key, glossary_id) is None
    assert not store.delete("other", glossary.id)
    assert store.delete("app", glossary.id) and not store.delete("app", glossary.id)
    assert store.list("app") == [] and store.list("other") == [other]
    store.close()


def test_no_glossary_has_an_id_that_postgresql_refuses(uri: str) -> None:
    store = GlossaryStore(uri)
    glossary = add(store, "app")
    assert store.find("app", f"{glossary.id}\0") is None and not store.delete("app", f"{glossary.id}\0")
    store.close()


def test_glossaries_outlive_the_service(uri: str) -> None:
    store = GlossaryStore(uri)
    glossary = add(store, "")
    store.close()
    again = GlossaryStore(uri)
    assert again.find("", glossary.id) == glossary
    again.close()


def test_what_only_reads_waits_for_no_writer(tmp_path):
    """A service reads glossaries and keys while another transaction has the file's write lock."""
    path = tmp_path / "keys.db"
    keys, store = KeyStore(path), GlossaryStore(path)
    keys.add("app")
    glossary = add(store, "app")
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        assert store.list("app") == [glossary] and store.find("app", glossary.id) == glossary
        assert store.read_entries("app", glossary.id) == write_entries(ENTRIES)
        assert [key.name for key in keys.list_keys()] == ["app"]
        assert [key.name for key in keys.sync({}, date(2026, 1, 1)).keys] == ["app"]


def test_the_limit_holds_when_callers_come_together(uri: str) -> None:
    GlossaryStore(uri).create()

    def try_to_add(number: int) -> bool:
        store = GlossaryStore(uri)
        try:
            add(store, "app", f"glossary {number}")
        except GlossariesFullError:
            return False
        finally:
            store.close()
        return True

    with ThreadPoolExecutor(4) as threads:
        added = list(threads.map(try_to_add, range(12)))
    assert added.count(True) == 5
    store = GlossaryStore(uri)
    assert len(store.list("app")) == 5 and store.list("other") == []
    with pytest.raises(GlossariesFullError):
        add(store, "app")
    store.close()
