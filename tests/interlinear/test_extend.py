"""The examples of docs/extend.md, as one program; and how a package of one's own is found."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from interlinear.components import Components
from tests.interlinear.cli.conftest import write_toy

PAGE = Path(__file__).parents[2] / "docs" / "extend.md"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(PAGE.parents[1]))
    return tmp_path


def blocks():
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_page_runs(folder):
    done = subprocess.run([sys.executable, "-c", "".join(blocks())], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert re.search(r"\[\(\d+, \d+\)", done.stdout.splitlines()[-1]), done.stdout


def install(folder, module, group="interlinear.components"):
    """A package of one module with an entry point: as installed packages, it has a folder of metadata."""
    (folder / "mine.py").write_text(module)
    (folder / "mine-1.dist-info").mkdir()
    (folder / "mine-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (folder / "mine-1.dist-info/entry_points.txt").write_text(f"[{group}]\nmine = mine\n")


def test_a_package_is_found_by_its_entry_point(folder):
    """By the command."""
    install(folder, blocks()[0])
    settings = ["--set", "model.attention=dot", "--set", "model.directions=summed"]
    command = [sys.executable, "-m", "interlinear", "info", "rnnsearch_small", *settings]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "parameters" in done.stdout, done.stderr


def test_a_metric_reads_the_sources(folder):
    (example,) = [block for block in blocks() if "CopiedWords" in block]
    program = """
from interlinear.metrics.catalogue import select_metrics
from interlinear.metrics.metric import Preprocessing, ReferenceSet, SystemOutputs

(metric,) = select_metrics(["copied"], Preprocessing())
answers = ReferenceSet.from_lines([["a", "b"]], sources=["ein Hund", "Hund da"])
print(metric.score(SystemOutputs.from_lines(["a Hund", "Hund da"]), answers).score)
"""
    done = subprocess.run([sys.executable, "-c", example + program], capture_output=True, text=True, check=False)
    assert done.stdout == "75.0\n", done.stderr[-2000:]


def test_a_combination_reads_both_sources(folder):
    (example,) = [block for block in blocks() if "MeanOfContexts" in block]
    program = """
import torch
from interlinear.batch import collate
from interlinear.config import RecurrentConfig, TextVocabulary
from interlinear.models.model import build

words = TextVocabulary(vocabulary=9)
config = {"combination": "mean", "embedding": 6, "hidden": 5}
model = build(RecurrentConfig(**config, sources={"source": words, "mt": words}, target=words)).double().eval()
for mt in ([[4, 5]], [[8, 5]], [None]):
    batch = collate({"source": [[5, 6, 7]], "mt": mt}, [[6, 7]])
    readout, weights = model.unroll(model.encode(batch), batch.target_BL[:, None])
    print(round(float(readout.sum()), 9), [round(float(w.sum()), 6) for w in weights.weights.values()])
"""
    done = subprocess.run([sys.executable, "-c", example + program], capture_output=True, text=True, check=False)
    one, other, absent = done.stdout.splitlines()
    assert one.split()[0] != other.split()[0] and absent.endswith("[3.0, 0.0]"), done.stderr[-2000:]


@pytest.mark.slow
def test_pictures_are_read_by_a_further_network(folder):
    """It is trained by a recipe, and a bundle with it is served. It sees the colours that it asks for."""
    (example,) = [block for block in blocks() if "class Patches" in block]
    install(folder, example)
    program = """
import io
from pathlib import Path

import torch
from PIL import Image
from starlette.testclient import TestClient
from interlinear.models.image_encoders.networks import build_network
from service.app import create_app
from service.settings import ServedModelConfig, Settings
from tests.interlinear.cli.conftest import write_toy
from training.recipe.settings import ImageSettings

grid = ImageSettings(kind="image", network="patches", size=32).grid
network = build_network(grid.network)
white, black = (torch.full((1, 32, 32, 3), value, dtype=torch.uint8) for value in (255, 0))
weight, bias = network.projection.weight, network.projection.bias
torch.testing.assert_close(network(white)[0, 0], weight.sum((1, 2, 3)) + bias)
torch.testing.assert_close(network(black)[0, 3], bias - weight.sum((1, 2, 3)))

write_toy(Path("toy"), seed=2, image=grid, combination="concat", initialization="uniform", initialization_scale=1.0)
file = io.BytesIO()
Image.new("RGB", (40, 30), "red").save(file, "PNG")
with TestClient(create_app(Settings(models=(ServedModelConfig(name="toy", uri="toy"),), threads=1))) as client:
    fields = {"q": "ein hund", "source": "de", "target": "en", "explain": "true"}
    answer = client.post("/translate/multimodal", data=fields, files={"image": ("red.png", file.getvalue())})
    print(answer.json()["explanations"][0]["sources"]["image"]["grid"])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.endswith("[2, 2]\n"), done.stderr[-3000:]


@pytest.mark.slow
def test_an_answer_has_a_further_field(folder):
    """Of the service, of the command and in Python; with a value for each of two sentences. It is described by
    OpenAPI, and the explanation that it needs is in no answer that did not ask for it."""
    (example,) = [block for block in blocks() if "class AlignedShare" in block]
    install(folder, example)
    program = """
import json
from pathlib import Path
from starlette.testclient import TestClient
import interlinear
from interlinear.cli import run
from service.app import create_app
from service.settings import ServedModelConfig, Settings
from tests.interlinear.cli.conftest import write_toy

write_toy(Path("toy"), seed=1)
text, fields = "Ein Hund. Die Katze schläft.", ["aligned"]
Path("text").write_text(text)
assert run(["translate", "toy", "text", "--field", "aligned", "--split-sentences", "1"]) == 0
(result,) = interlinear.translate(interlinear.load("toy"), [text], fields=fields)
print(json.dumps({"fields": result.fields}))
with TestClient(create_app(Settings(models=(ServedModelConfig(name="toy", uri="toy"),), threads=1))) as client:
    request = {"q": text, "source": "de", "target": "en", "fields": fields}
    print(client.post("/translate", json=request).text)
    print(client.post("/translate", json=request | {"q": [text, " "]}).text)
    print(client.post("/translate", json=request | {"fields": ["unknown"]}).text)
    print(json.dumps(client.get("/openapi.json").json()["components"]["schemas"]["AnswerFields"]["properties"]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    by_command, in_python, served, several, refused, described = map(json.loads, done.stdout.splitlines()[-6:])
    assert len(by_command["fields"]["aligned"]) == 2 and min(by_command["fields"]["aligned"]) > 0
    assert by_command["fields"] == in_python["fields"] == served["fields"]
    assert several["fields"] == [served["fields"], {"aligned": []}]
    assert "explanation" not in by_command and "explanations" not in served
    assert "there is no answer field unknown; there are aligned" in refused["detail"]
    assert {"type": "array", "items": {"type": "number"}} in described["aligned"]["anyOf"]
    assert described["aligned"]["description"].startswith("Share of each sentence's words")


SONG = "[ti:Der Hund]\n[00:12.00]ein hund\n[00:17.20][00:21.10]die katze\n"


@pytest.mark.slow
def test_documents_of_a_further_format_are_translated(folder):
    """By the command and by the service, whose processes of documents find the format too."""
    (example,) = [block for block in blocks() if "read_lyrics" in block]
    install(folder, example, "interlinear.documents")
    write_toy(folder / "toy", seed=1)
    (folder / "song.lrc").write_text(SONG)
    program = """
from pathlib import Path
from starlette.testclient import TestClient
from interlinear.cli import run
from service.app import create_app
from service.settings import ServedModelConfig, Settings

assert run(["translate", "toy", "song.lrc", "-o", "song.en.lrc"]) == 0
with TestClient(create_app(Settings(models=(ServedModelConfig(name="toy", uri="toy"),), threads=1))) as client:
    assert ".lrc" in client.get("/frontend/settings").json()["supportedFilesFormat"]
    file, languages = ("song.lrc", Path("song.lrc").read_bytes()), {"source": "de", "target": "en"}
    answer = client.post("/translate_file", data=languages, files={"file": file})
    print(client.get(answer.json()["translatedFileUrl"]).text)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    written = (folder / "song.en.lrc").read_text()
    assert done.stdout.splitlines()[-len(SONG.splitlines()) - 1 :] == [*written.splitlines(), ""]
    line = r"\[ti:Der Hund\]\n\[00:12.00\](.+)\n\[00:17.20\]\[00:21.10\](.+)\n"
    translated = re.fullmatch(line, written)
    assert translated and set(translated.groups()).isdisjoint({"ein hund", "die katze"})


def test_a_processor_limits_only_the_sentences_that_ask_for_it(folder):
    (example,) = [block for block in blocks() if "NoDoubles" in block]
    program = """
from interlinear.batch import collate
from interlinear.config import RecurrentConfig, TextVocabulary
from interlinear.models.model import build
from interlinear.search import SearchOptions, SearchRequest, SlotTable

torch.manual_seed(2)
words = TextVocabulary(vocabulary=7)
table = SlotTable(build(RecurrentConfig(embedding=6, hidden=5, sources={"source": words}, target=words)).eval(), 3)
plain = SearchOptions(beam=3, min_length=12, max_length=12)
asked = [plain, SearchOptions(**plain.model_dump() | {"processors": ["no_doubles"]})]
table.admit(collate({"source": [[5, 6]] * 2}), [SearchRequest(i, own, 12) for i, own in enumerate(asked)])
while not (found := table.pop_finished()):
    table.step()
print([sum(a == b for a, b in zip(ids, ids[1:])) for ids in (one.hypotheses[0].ids for one in found)])
"""
    done = subprocess.run([sys.executable, "-c", example + program], capture_output=True, text=True, check=False)
    assert re.fullmatch(r"\[[1-9]\d*, 0\]\n", done.stdout), done.stderr[-2000:] + done.stdout


def test_threads_that_ask_at_once_wait_for_the_import(folder):
    (folder / "kinds.py").write_text(
        "from interlinear.components import Components\nKINDS = Components('kind', 'parts')\n"
    )
    (folder / "parts.py").write_text(
        "import time\nfrom kinds import KINDS\ntime.sleep(0.2)\nKINDS.register('one')(dict)\n"
    )
    program = """
from concurrent.futures import ThreadPoolExecutor
from kinds import KINDS

with ThreadPoolExecutor(4) as threads:
    print(list(threads.map(lambda _: KINDS["one"].__name__, range(4))))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "['dict', 'dict', 'dict', 'dict']\n", done.stderr


def test_a_name_that_nobody_registered_is_refused_with_those_that_there_are():
    kinds = Components("kind", "interlinear.components")

    @kinds.register("one")
    class One:
        pass

    assert kinds["one"] is One
    with pytest.raises(ValueError, match=r"^there is no kind two; there are one$"):
        kinds.check("two")
    with pytest.raises(ValueError, match="kind: there is a one already"):
        kinds.register("one")(type("Other", (), {}))
