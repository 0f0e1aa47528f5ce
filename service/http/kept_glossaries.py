"""Access of requests to the glossaries that the service keeps: each caller to those of its key."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from seq2seq.errors import StoreError
from seq2seq.terms import GlossaryEntry
from service.http.dependencies import Caller, Service, ServiceDep
from service.language_tags import tag_distance
from service.problems import Problem
from service.store.glossary_store import Glossary, GlossaryStore

T = TypeVar("T")


async def glossary_store(service: ServiceDep) -> GlossaryStore:
    """The store of a service that keeps glossaries. Raises Problem 403."""
    if service.glossaries is None:
        raise Problem(403, "this service keeps no glossaries: it has no store of keys")
    return service.glossaries


def owner(caller: Caller) -> str:
    """The name of an authenticated caller's key, empty without one."""
    key = caller.request.state.key
    return key.name if key else ""


async def in_store(work: Callable[[], T]) -> T:
    """The result of work with the store, in a thread. Raises Problem 503 if the store cannot be read or written."""
    try:
        return await asyncio.to_thread(work)
    except StoreError as error:
        raise Problem.unavailable(f"the glossaries cannot be read or written now: {error.problem}") from None


async def find_glossary(
    store: GlossaryStore, caller: Caller, glossary_id: str
) -> tuple[Glossary, tuple[GlossaryEntry, ...]]:
    """A glossary of the caller, with its entries. Raises Problem 404 if there is none, or it is another caller's."""
    found = await in_store(lambda: store.get(owner(caller), glossary_id))
    if found is None:
        raise no_such_glossary(glossary_id)
    return found


def no_such_glossary(glossary_id: str) -> Problem:
    return Problem(404, f"you have no glossary {glossary_id!r:.50}")


async def kept_entries(
    service: Service, caller: Caller, glossary_id: str, language_pairs: set[tuple[str, str]]
) -> tuple[GlossaryEntry, ...]:
    """The entries of the glossary that a translation names. Raises Problem if the caller has none such, or it is for
    other languages."""
    store = await glossary_store(service)
    try:
        glossary, entries = await find_glossary(store, caller, glossary_id)
    except Problem as problem:
        if problem.status != 404:  # the store cannot be read now
            raise
        raise Problem.in_field("glossary_id", f"names no glossary of yours: {glossary_id!r:.50}") from problem
    for source, target in language_pairs:
        if tag_distance(source, glossary.source) is None or tag_distance(target, glossary.target) is None:
            raise Problem.in_field(
                "glossary_id",
                f"is for {glossary.source} to {glossary.target}, and the translation is from {source} to {target}",
            )
    return entries
