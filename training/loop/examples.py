"""Examples of a model: inputs of the dev set whose reference it writes, by the search with which it is served."""

import base64
import io
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image
from sacrebleu.metrics import CHRF

from interlinear.bundle import Bundle
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from interlinear.images.decode import decode_image
from interlinear.models.model import Model
from training.data.prepare.prepared import PreparedSplit
from training.events import DevSet

EXAMPLES, CANDIDATES = 3, 12  # of a model; rows that are searched for them
QUALITY = 85  # of an image's JPEG


def choose_examples(
    bundle: Bundle[Model], dev: DevSet, split: PreparedSplit, outputs: Mapping[int, str]
) -> list[dict[str, str]]:
    """The inputs, by source, of rows that the model outputs exactly as a reference; where there are fewer than
    EXAMPLES, of rows with the most similar outputs. `outputs`: of rows of the dev set. Images are JPEG files in base64.
    """
    rows = dev.example_rows(outputs)
    likely = most_alike(
        rows, {row: (outputs[row], [lines[row] for lines in dev.references]) for row in rows}, CANDIDATES
    )
    width = bundle.card.search.beam
    candidates = [request_and_example(bundle, dev, split, row) for row in likely]
    generator = SequenceGenerator(bundle, slots=CANDIDATES, width=width)
    results = generator.generate(request for request, _ in candidates)
    texts = [one.candidates[0].text if isinstance(one, GenerationResult) else "" for one in results]
    target = bundle.tokenizers["target"]
    references = [[dev.written("target", lines[row], target) for lines in dev.references] for row in likely]
    pairs = dict(enumerate(zip(texts, references, strict=True)))
    return [candidates[i][1] for i in most_alike(list(pairs), pairs, EXAMPLES)]


def most_alike(items: Sequence[int], pairs: Mapping[int, tuple[str, list[str]]], count: int) -> list[int]:
    """This many items whose output equals one of their references, evenly spread; if there are fewer, the items whose
    output is most similar to a reference (chrF). `pairs`: an output and its references, by item."""
    exact = [item for item in items if pairs[item][0] in pairs[item][1]]
    if len(exact) >= count:
        return [exact[(2 * i + 1) * len(exact) // (2 * count)] for i in range(count)]
    chrf = CHRF()
    others = [item for item in items if item not in exact]
    others.sort(key=lambda item: -chrf.sentence_score(*pairs[item]).score)
    return [*exact, *others][:count]


def request_and_example(
    bundle: Bundle[Model], dev: DevSet, split: PreparedSplit, row: int
) -> tuple[Request, dict[str, str]]:
    """A row of the dev set as a request, and as an example. An image whose features the model reads is left out of
    both: nobody can send features."""
    lines = {name: dev.written(name, lines[row], bundle.tokenizers[name]) for name, lines in dev.sources.items()}
    texts, files, pixels = {name: line for name, line in lines.items() if line}, {}, {}
    for name, grid in bundle.card.model.images.items():
        if grid.network and (image := split.image(name, dev.lines[row], grid)) is not None:
            file = jpeg(image)
            files[name], pixels[name] = base64.b64encode(file).decode(), decode_image(file, grid.network.size)
    return Request(texts, bundle.card.search, images=pixels), texts | files


def jpeg(pixels: np.ndarray) -> bytes:
    """An image, uint8 (S, S, 3), as a file."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=QUALITY)
    return file.getvalue()
