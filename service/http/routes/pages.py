"""Static pages: the playground at `/` and the API's documentation at `/docs`. They load nothing from other hosts."""

from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse

from service.problems import Problem, excerpt

FOLDER = Path(__file__).parents[2] / "playground"
MEDIA_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
FILES = {path.relative_to(FOLDER).as_posix(): path for path in FOLDER.rglob("*") if path.suffix in MEDIA_TYPES}

routes = APIRouter(include_in_schema=False)


@routes.api_route("/", methods=["GET", "HEAD"])
async def playground() -> FileResponse:
    return _file("index.html")


@routes.api_route("/docs", methods=["GET", "HEAD"])
async def docs() -> FileResponse:
    return _file("docs.html")


@routes.api_route("/playground/{name:path}", methods=["GET", "HEAD"])
async def part(name: str) -> FileResponse:
    return _file(name)


def _file(name: str) -> FileResponse:
    path = FILES.get(name)
    if path is None:
        raise Problem(404, f"there is nothing at {excerpt('/playground/' + name)}")
    return FileResponse(path, media_type=MEDIA_TYPES[path.suffix], headers={"Cache-Control": "no-cache"})
