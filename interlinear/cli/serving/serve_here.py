"""Runs the service in the process of `interlinear serve`."""

import errno
import signal
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from interlinear.errors import ServiceError

if TYPE_CHECKING:
    from service.settings import Settings


def serve_here(settings: "Settings", listening: socket.socket, host: str, say: Callable[[str], None]) -> None:
    """Run the service in this process until SIGTERM or SIGINT. Raises ServiceError if another process listens on the
    socket's port already."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    import uvicorn

    say(f"loading {', '.join(served_model.uri for served_model in settings.models)} ...")

    from service.app import create_app
    from service.http.server import server_config

    app = create_app(settings)
    service = app.state.service
    port = listening.getsockname()[1]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            for served_model in service.models.served:
                reverse = f", explained with {served_model.reverse}" if served_model.reverse else ""
                direction = served_model.facts.direction
                say(f"{served_model} is served: {served_model.task}, {direction}{reverse}")
            say(f"playground {address}/  API {address}/docs  Ctrl-C ends it")

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            # Stop the engine first: readiness ends, and requests not finished in time still get an answer.
            # Use a separate thread, because the threads of the event loop's executor may be busy.
            with ThreadPoolExecutor(1, "stops") as executor:
                stopping = asyncio.get_running_loop().run_in_executor(
                    executor, service.engine.stop, settings.grace_seconds
                )
                await super().shutdown(sockets)
                await stopping

    # uvicorn shuts down on these signals and then raises them again. Ignore them then: this is a normal stop.
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda _signal, _frame: None)
    try:
        Server(server_config(app)).run(sockets=[listening])
    except OSError as error:  # another process bound to the same port started to listen first
        raise listen_error(error, host, port) from None


def bind_socket(host: str, port: int) -> socket.socket:
    """A socket bound to the port, so that a port in use is reported before models are loaded. Raises ServiceError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise listen_error(error, host, port) from None
    return listening


def listen_error(error: OSError, host: str, port: int) -> ServiceError:
    """The error for an address that cannot be bound."""
    if error.errno == errno.EADDRINUSE:
        return ServiceError(
            f"{host}:{port}", "the port is in use", "stop what listens there, or choose another by --port"
        )
    return ServiceError(
        f"{host}:{port}", f"the service cannot listen there ({error.strerror})", "see --host and --port"
    )
