"""Glossaries are kept beside the keys, for each key its own, up to a limit."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from seq2seq.terms import GlossaryEntry
from service.store.glossary_store import GlossariesFullError, Glossary, GlossaryStore

ENTRIES = (GlossaryEntry("Hund", "hound"), GlossaryEntry("Größe XL", "size, “XL”"))


def add(store: GlossaryStore, key: str, name: str = "dogs", per_key: int = 5) -> Glossary:
    return store.add(key, name, "de", "en", ENTRIES, per_key)


def test_a_glossary_is_found_by_its_key_alone(uri: str) -> None:
    store = GlossaryStore(uri)
    glossary, other = add(store, "app"), add(store, "other")
    assert store.list("app") == [glossary] and glossary.entry_count == 2
    assert store.get("app", glossary.id) == (glossary, ENTRIES)
    assert store.get("other", glossary.id) is None and store.get("app", "unknown") is None
    assert not store.delete("other", glossary.id)
    assert store.delete("app", glossary.id) and not store.delete("app", glossary.id)
    assert store.list("app") == [] and store.list("other") == [other]
    store.close()


def test_no_glossary_has_an_id_that_postgresql_refuses(uri: str) -> None:
    store = GlossaryStore(uri)
    glossary = add(store, "app")
    assert store.get("app", f"{glossary.id}\0") is None and not store.delete("app", f"{glossary.id}\0")
    store.close()


def test_glossaries_outlive_the_service(uri: str) -> None:
    store = GlossaryStore(uri)
    glossary = add(store, "")
    store.close()
    again = GlossaryStore(uri)
    assert again.get("", glossary.id) == (glossary, ENTRIES)
    again.close()


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
