"""Documents by the service's route and by the command: the same files, of every kind that tests have."""

from pathlib import Path

import httpx
import pytest
from starlette.testclient import TestClient

import interlinear
from interlinear.cli.decoding.document_translation import translate_document
from interlinear.cli.decoding.glossary import terms_finder
from interlinear.components import DOCUMENT_FORMATS
from interlinear.documents.files import parse_file
from interlinear.errors import DataError
from interlinear.generation.generator import SequenceGenerator
from interlinear.translation.offline import OfflineModel
from interlinear.translation.splitting import SplitOptions
from service.app import create_app
from tests.interlinear.documents.formats import document
from tests.parameters import slow_but

FOLDER = Path(__file__).parents[2] / "data" / "documents"
FILES = sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.*") if path.suffix in DOCUMENT_FORMATS)
QUICK = [name for name in FILES if name.startswith("line-breaks")]
SENTENCES = "Ein Hund läuft im Park. Eine Katze\tschläft."


@pytest.fixture(scope="module")
def client(one_model):
    with TestClient(create_app(one_model)) as client:
        yield client


@pytest.fixture(scope="module")
def by_command(bundles):
    bundle = interlinear.load(bundles.de_en)
    model = OfflineModel(SequenceGenerator(bundle))
    find_terms = terms_finder(bundle, None, None, True, False)

    def translate(name: str, content: bytes) -> bytes:
        how = SplitOptions(OfflineModel.fits)
        file = parse_file(content, name)
        return translate_document(model, file, bundle.card.search, lambda each, _: iter(each), how, find_terms).content

    return translate


def by_service(client: TestClient, name: str, content: bytes) -> httpx.Response:
    answer = client.post("/translate_file", data={"source": "de", "target": "en"}, files={"file": (name, content)})
    return client.get(answer.json()["translatedFileUrl"]) if answer.status_code == 200 else answer


def check(client, by_command, name: str, content: bytes) -> None:
    response = by_service(client, name, content)
    try:
        expected = by_command(name, content)
    except DataError as refusal:
        assert response.status_code == 400 and refusal.problem in response.text
    else:
        assert (response.status_code, response.content) == (200, expected)


@pytest.mark.parametrize("name", slow_but(QUICK, FILES))
def test_files_of_tests(client, by_command, name):
    check(client, by_command, Path(name).name, (FOLDER / name).read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("suffix", sorted(DOCUMENT_FORMATS))
def test_a_document_of_every_format(client, by_command, suffix):
    check(client, by_command, f"a{suffix}", document(suffix, SENTENCES))
