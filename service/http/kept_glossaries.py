"""Access of requests to the glossaries that the service keeps: each caller has the glossaries of its key."""

import asyncio
import logging
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from interlinear.errors import StoreError
from interlinear.generation.terms import GlossaryEntry, TermOptions
from interlinear.generation.terms.entries import parse_entries
from interlinear.translation.language_tags import tag_distance
from service.http.dependencies import Caller, Service, ServiceDep
from service.problems import Problem
from service.store.glossary_store import Glossary, GlossaryStore

T = TypeVar("T")

log = logging.getLogger("interlinear.service")

CHARACTERS_PER_UNIT = 100_000  # characters of a glossary that are indexed in the time of one text's search


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
        log.error("glossaries: %s", error)
        raise Problem.unavailable("the glossaries cannot be used now; the service's log says why") from None


async def find_glossary(store: GlossaryStore, caller: Caller, glossary_id: str) -> Glossary:
    """A glossary of the caller. Raises Problem 404 if there is none, or it is another caller's."""
    found = await in_store(lambda: store.find(owner(caller), glossary_id))
    if found is None:
        raise no_such_glossary(glossary_id)
    return found


def no_such_glossary(glossary_id: str) -> Problem:
    return Problem(404, f"you have no glossary {glossary_id!r:.50}")


async def with_kept_entries(
    service: Service, caller: Caller, options: TermOptions, glossary_id: str, language_pairs: set[tuple[str, str]]
) -> TermOptions:
    """The options with the entries of the glossary that a translation names, whose characters are charged. Raises
    Problem if the caller has no such glossary, or it is for other languages."""
    store = await glossary_store(service)
    try:
        glossary = await find_glossary(store, caller, glossary_id)
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
    text = await in_store(lambda: store.read_entries(owner(caller), glossary_id) or "")
    service.auth.charge(caller.request, caller.request.state.charged + len(text) // CHARACTERS_PER_UNIT)
    return await asyncio.to_thread(lambda: options.with_fallback(read_entries(text)))


@lru_cache(maxsize=8)
def read_entries(text: str) -> tuple[GlossaryEntry, ...]:
    """The entries of a kept glossary's text."""
    return tuple(parse_entries(text.split("\n"), "tsv", "entries"))
