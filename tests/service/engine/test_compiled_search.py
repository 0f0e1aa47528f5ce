"""A service whose search is compiled: its answers, and no compilation after it is ready."""

import pytest
import torch
from starlette.testclient import TestClient

from interlinear.search.compiled import resolve_compile
from service.app import create_app
from tests.service.engine.test_engine import MANY


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_compiled_service(settings, precision, bundles):
    """Requests of one text and of many, with and without explanations, with another beam, with what is not compiled."""
    if not resolve_compile("on", "cpu"):
        pytest.skip("there is no C++ compiler")
    models = tuple(model for model in settings.models if model.uri == str(bundles.de_en))
    bodies = [
        {"q": MANY[0]},
        {"q": MANY[:50]},
        {"q": MANY[7], "explain": True},
        {"q": MANY[:3], "beam_size": 3, "alternatives": 2},
        {"q": [*MANY[:9], "Ein Hund läuft 5 km."]},
        {"q": MANY[7], "target_prefix": "A", "alternatives": 3},
    ]
    answers = {}
    try:
        for compile_search in ("off", "on"):
            chosen = settings.model_copy(
                update={"models": models, "compile": compile_search, "precision": precision, "load_seconds": 600}
            )
            with TestClient(create_app(chosen)) as client:
                assert client.get("/health/ready").status_code == 200
                if compile_search == "on":
                    torch.compiler.set_stance("fail_on_recompile")
                responses = [client.post("/translate", json=body | {"source": "de", "target": "en"}) for body in bodies]
                assert {response.status_code for response in responses} == {200}
                answers[compile_search] = [response.json()["translatedText"] for response in responses]
    finally:
        torch.compiler.set_stance("default")
    assert answers["on"] == answers["off"]
