"""Cost of polling an alias, in requests and milliseconds, compared with listing the registry.

    python -m benchmarks.serving.alias_poll --models 200 --versions 20

A real MLflow on SQLite, called directly and through its own server.
"""

import argparse
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from werkzeug.serving import make_server

from registry.names import AliasName
from registry.store import MlflowStore


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=200)
    parser.add_argument("--versions", type=int, default=20)
    parser.add_argument("--polls", type=int, default=20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = MlflowStore(f"sqlite:///{folder}/mlflow.db", create=True)
        fill(store, options.models, options.versions, folder)
        alias = AliasName(f"model-{options.models // 2}", "champion")
        print(f"{options.models} models of {options.versions} versions; median of {options.polls} looks\n")
        print("| store | way | requests a look | ms a look |\n|---|---|---|---|")
        report("SQLite", store, alias, options.polls, [])
        with served(store, folder) as (address, asked):
            report("HTTP", MlflowStore(address), alias, options.polls, asked)


def fill(store: MlflowStore, models: int, versions: int, folder: str) -> None:
    for i in range(models):
        name = f"model-{i}"
        store.client.create_registered_model(name)
        for _ in range(versions):
            made = store.client.create_model_version(name, folder)
        store.client.set_registered_model_alias(name, "champion", made.version)


def report(kind: str, store: MlflowStore, alias: AliasName, polls: int, asked: list[str]) -> None:
    ways: dict[str, Callable[[], object]] = {
        "listing": lambda: listed(store, alias),
        "one call": lambda: store.alias_version(alias),
    }
    times: dict[str, list[float]] = {way: [] for way in ways}
    requests: dict[str, int] = {}
    for _ in range(polls):
        for way, look in ways.items():
            asked.clear()
            began = time.perf_counter()
            look()
            times[way].append(1000 * (time.perf_counter() - began))
            requests[way] = len(asked)
    for way in ways:
        count = str(requests[way]) if kind == "HTTP" else "-"
        print(f"| {kind} | {way} | {count} | {statistics.median(times[way]):.1f} |")


def listed(store: MlflowStore, alias: AliasName) -> str:
    """The earlier implementation: a store opened for every poll, every model listed twice, and every version."""
    from registry.store.connection import paginate

    client = MlflowStore(store.uri).client
    for _ in range(2):
        models = {model.name: model for model in paginate(client.search_registered_models)}
    versions = {(made.name, str(made.version)): made for made in paginate(client.search_model_versions)}
    return str(versions[alias.name, str(models[alias.name].aliases[alias.alias])].version)


@contextmanager
def served(store: MlflowStore, folder: str) -> Iterator[tuple[str, list[str]]]:
    """MLflow's own server over that store: its address, and the requests that it received."""
    os.environ["_MLFLOW_SERVER_SERVE_ARTIFACTS"] = "true"
    os.environ["_MLFLOW_SERVER_ARTIFACT_DESTINATION"] = str(Path(folder, "artifacts"))
    from mlflow.server import app, handlers

    asked: list[str] = []

    def counting(environ: dict[str, Any], start: Callable[..., Any]) -> Any:
        asked.append(environ["PATH_INFO"])
        return app(environ, start)

    handlers.initialize_backend_stores(store.uri, store.uri, folder)
    server = make_server("127.0.0.1", 0, counting, threaded=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        thread.join()


if __name__ == "__main__":
    main()
