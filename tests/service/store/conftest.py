"""An empty store of each kind: a file, or a database of PostgreSQL."""

from collections.abc import Iterator

import pytest
import sqlalchemy

from tests.registry.servers import postgres


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgres("interlinear", "s3cret") as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def uri(request, tmp_path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "keys.db")
    address = request.getfixturevalue("server")
    with sqlalchemy.create_engine(address).begin() as connection:
        connection.exec_driver_sql("DROP TABLE IF EXISTS keys, rates, suggestions, glossaries")
    return address
