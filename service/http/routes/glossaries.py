"""`/glossaries`: glossaries that callers keep in the service, with DeepL's fields; a translation names one."""

from datetime import datetime
from functools import partial
from typing import Annotated, Any, ClassVar

from fastapi import APIRouter, Depends
from pydantic import AfterValidator, Field, create_model
from starlette.responses import PlainTextResponse, Response

from interlinear.errors import DataError, RequestError
from interlinear.generation.terms import GlossaryEntry, TermFinder, TermOptions
from interlinear.generation.terms.entries import EntriesFormat, parse_entries
from service.auth.auth import bearer_token
from service.http.dependencies import Caller, CallerDep, ServiceDep
from service.http.kept_glossaries import find_glossary, glossary_store, in_store, no_such_glossary, owner
from service.http.openapi import body_documentation
from service.http.parsing import parsed_body
from service.http.requests import ApiRequest, LanguageCode, check_stored_text
from service.http.responses import ApiResponse
from service.problems import Problem, problem_responses
from service.settings import Settings
from service.store.glossary_store import GlossariesFullError, Glossary, GlossaryStore


class GlossaryRequest(ApiRequest):
    """A glossary to keep."""

    example: ClassVar[dict[str, str | int | bool]] = {
        "name": "Dogs",
        "source_lang": "de",
        "target_lang": "en",
        "entries": "Hund\thound\nPudel\tpoodle",
        "entries_format": "tsv",
    }

    name: str
    source_lang: LanguageCode
    target_lang: LanguageCode
    entries: str
    entries_format: EntriesFormat = Field("tsv", description="a tab (`tsv`) or a comma (`csv`) between both")


class GlossaryInformation(ApiResponse):
    """A kept glossary, without its entries."""

    glossary_id: str
    name: str
    ready: bool = Field(True, description="always true: a glossary can be used at once")
    source_lang: str
    target_lang: str
    creation_time: datetime
    entry_count: int

    @classmethod
    def of(cls, glossary: Glossary) -> "GlossaryInformation":
        return cls(
            glossary_id=glossary.id,
            name=glossary.name,
            source_lang=glossary.source,
            target_lang=glossary.target,
            creation_time=glossary.created,
            entry_count=glossary.entry_count,
        )


class GlossaryList(ApiResponse):
    """The caller's glossaries, the oldest first."""

    glossaries: list[GlossaryInformation]


def router(settings: Settings) -> APIRouter:
    """The routes, with the limits of the settings."""
    routes = APIRouter(tags=["glossaries"])
    kind = glossary_request_with_limits(settings)
    errors = problem_responses(401, 403, 404, 429, 503)

    # The store is the first dependency, so that a service without one says so whatever the body is.
    @routes.post(
        "/glossaries",
        status_code=201,
        response_model=GlossaryInformation,
        responses=problem_responses(403, 503),
        openapi_extra=body_documentation(kind),
    )
    async def create_glossary(
        store: Annotated[GlossaryStore, Depends(glossary_store)],
        caller: CallerDep,
        service: ServiceDep,
        request: Annotated[GlossaryRequest, Depends(parsed_body(kind))],
    ) -> GlossaryInformation:
        """Keep a glossary of two languages. Callers without a key share theirs."""
        read = partial(read_entries, service.settings)
        (entries,) = await service.engine.preparation.map(caller.name, read, [request], lambda one: len(one.entries))
        per_key = service.settings.glossaries_per_key
        try:
            glossary = await in_store(
                lambda: store.add(
                    owner(caller), request.name, request.source_lang, request.target_lang, entries, per_key
                )
            )
        except GlossariesFullError:
            raise Problem(403, f"there are {per_key} glossaries already, the most of a key: delete one") from None
        return GlossaryInformation.of(glossary)

    @routes.get("/glossaries", response_model=GlossaryList, responses=errors)
    async def list_glossaries(
        store: Annotated[GlossaryStore, Depends(glossary_store)], caller: Annotated[Caller, Depends(identified)]
    ) -> GlossaryList:
        """The caller's glossaries."""
        glossaries = await in_store(lambda: store.list(owner(caller)))
        return GlossaryList(glossaries=[GlossaryInformation.of(glossary) for glossary in glossaries])

    @routes.get("/glossaries/{glossary_id}", response_model=GlossaryInformation, responses=errors)
    async def get_glossary(
        glossary_id: str,
        store: Annotated[GlossaryStore, Depends(glossary_store)],
        caller: Annotated[Caller, Depends(identified)],
    ) -> GlossaryInformation:
        """One of the caller's glossaries, without its entries."""
        return GlossaryInformation.of(await find_glossary(store, caller, glossary_id))

    @routes.get(
        "/glossaries/{glossary_id}/entries",
        response_class=PlainTextResponse,
        responses=errors | {200: {"content": {"text/tab-separated-values": {"schema": {"type": "string"}}}}},
    )
    async def get_glossary_entries(
        glossary_id: str,
        store: Annotated[GlossaryStore, Depends(glossary_store)],
        caller: CallerDep,
        service: ServiceDep,
    ) -> Response:
        """The entries of one of the caller's glossaries: a source, a tab and a target on each line. It counts as a
        text."""
        service.auth.authenticate(caller.request, bearer_token(caller.request.headers))
        entries = await in_store(lambda: store.read_entries(owner(caller), glossary_id))
        if entries is None:
            raise no_such_glossary(glossary_id)
        return Response(entries, media_type="text/tab-separated-values; charset=utf-8")

    @routes.delete("/glossaries/{glossary_id}", status_code=204, responses=errors)
    async def delete_glossary(
        glossary_id: str,
        store: Annotated[GlossaryStore, Depends(glossary_store)],
        caller: Annotated[Caller, Depends(identified)],
    ) -> None:
        """Delete one of the caller's glossaries."""
        if not await in_store(lambda: store.delete(owner(caller), glossary_id)):
            raise no_such_glossary(glossary_id)

    return routes


async def identified(caller: CallerDep, service: ServiceDep) -> Caller:
    """The caller of a request for kept glossaries, by the key in its headers. Nothing is charged. Raises Problem."""
    caller.request.state.key = service.auth.identify(caller.request)
    return caller


def read_entries(settings: Settings, request: GlossaryRequest) -> tuple[GlossaryEntry, ...]:
    """The entries of a request. Raises Problem for invalid entries."""
    try:
        lines = request.entries.splitlines(keepends=True)  # csv drops a line break that it does not see
        entries = tuple(parse_entries(lines, request.entries_format, "entries"))
        longest = max((len(text) for entry in entries for text in entry), default=0)
        if longest > settings.term_characters:
            raise Problem.in_field("entries", f"must have texts of up to {settings.term_characters} characters")
        if not 0 < len(entries) <= settings.glossary_entries:
            raise Problem.in_field("entries", f"must have 1 to {settings.glossary_entries:,} entries")
        TermFinder(TermOptions(entries), request.source_lang.lower())  # raises for contradictions
    except DataError as error:
        raise Problem.in_field("entries", f"must be a glossary: {error}") from None
    except RequestError as error:
        raise Problem.in_field("entries", f"must be a glossary: {error.problem}; {error.remedy}") from None
    return entries


def glossary_request_with_limits(settings: Settings) -> type[GlossaryRequest]:
    """`GlossaryRequest` with the limits of the service's settings."""
    name: Any = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(check_stored_text)]
    entries: Any = Annotated[str, Field(min_length=1), AfterValidator(check_stored_text)]
    return create_model(
        "GlossaryRequest",
        __base__=GlossaryRequest,
        __doc__=GlossaryRequest.__doc__,
        name=(name, Field(description="its name, for people")),
        entries=(
            entries,
            Field(description=f"a source and a target on each line, {settings.glossary_entries:,} lines at most"),
        ),
    )
