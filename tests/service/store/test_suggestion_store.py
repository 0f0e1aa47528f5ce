"""Suggestions are kept beside the keys, once each, up to limits."""

import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from interlinear.errors import KeyFileError, StoreError
from service.auth.key_store import KeyStore
from service.store.suggestion_store import Suggestion, SuggestionsFullError, SuggestionStore

DOG = Suggestion("Ein Hund läuft.", "A dog runs.", "de", "en", "app")


def english(number: int, key: str = "app") -> Suggestion:
    return Suggestion("Ein Hund.", f"A dog {number}.", "de", "en", key)


def test_a_suggestion_is_kept_once_for_each_key(uri):
    store = SuggestionStore(uri)
    assert store.add(DOG, 10, 10)
    assert not store.add(DOG, 10, 10)
    other = Suggestion(DOG.text, DOG.translation, DOG.source, DOG.target, "other")
    assert store.add(other, 10, 10)
    assert [one.suggestion for one in store.list()] == [DOG, other]
    assert [one.suggestion for one in store.list(key="other")] == [other]
    assert store.list(source="en") == []
    store.close()


def test_the_limits_of_a_key_and_of_all_hold_when_callers_come_together(uri):
    SuggestionStore(uri).create()

    def add(suggestion: Suggestion) -> tuple[int, bool] | None:
        store = SuggestionStore(uri)
        try:
            store.add(suggestion, per_key=5, total=8)
        except SuggestionsFullError as full:
            return full.limit, full.of_key
        finally:
            store.close()
        return None

    with ThreadPoolExecutor(4) as threads:
        first = list(threads.map(add, [english(i) for i in range(12)]))
        second = list(threads.map(add, [english(i, "other") for i in range(5)]))
    assert sorted(map(str, first)) == ["(5, True)"] * 7 + ["None"] * 5
    assert sorted(map(str, second)) == ["(8, False)"] * 2 + ["None"] * 3
    store = SuggestionStore(uri)
    assert len(store.list()) == 8
    store.close()


def test_what_is_deleted_makes_room_and_its_id_is_not_used_again(uri):
    store = SuggestionStore(uri)
    for i in range(3):
        store.add(english(i), 3, 3)
    ids = [one.id for one in store.list()]
    assert store.delete([ids[2], ids[2], 10**6, 10**12, 10**22, -(10**22)]) == 1
    assert store.add(english(9), 3, 3)
    assert store.list()[-1].id > ids[2]
    store.close()


def test_keys_and_suggestions_share_a_store_whichever_came_first(uri, tmp_path):
    KeyStore(uri).add("app")
    SuggestionStore(uri).add(DOG, 10, 10)
    assert [key.name for key in KeyStore(uri).list_keys()] == ["app"]
    other = tmp_path / "other.db"
    SuggestionStore(other).add(DOG, 10, 10)
    assert stat.S_IMODE(other.stat().st_mode) == 0o600
    with pytest.raises(KeyFileError, match="there are no keys in it"):
        KeyStore(other).list_keys()
    KeyStore(other).add("late")
    assert [key.name for key in KeyStore(other).list_keys()] == ["late"]
    assert len(SuggestionStore(other).list()) == 1


def test_a_store_without_suggestions_says_so(tmp_path):
    with pytest.raises(StoreError, match="there is no such file"):
        SuggestionStore(tmp_path / "none.db").list()
    assert not (tmp_path / "none.db").exists()
    KeyStore(tmp_path / "keys.db").add("app")
    with pytest.raises(StoreError, match="there are no suggestions in it"):
        SuggestionStore(tmp_path / "keys.db").list()
