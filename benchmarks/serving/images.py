"""Images in serving: decoded and encoded images a second on one core, and their share of a request's time.

    python -m benchmarks.serving.images [--rounds 5] [--save]

Images are generated: smooth noise, as hard to compress as a photograph. A request is one sentence of 12 words with an
image, searched alone with a beam of 5 over 20 words by `multimodal_hierarchical` with untrained weights.
"""

import argparse
import io
from collections.abc import Callable

import numpy as np
import torch
from PIL import Image

from benchmarks.reporting import Report, alone, median, say
from benchmarks.training.systems import interleaved
from seq2seq.batch import ImageInput, collate
from seq2seq.config import ImageGrid, ImageNetwork, ModelConfig, TextVocabulary
from seq2seq.images.decode import decode_image
from seq2seq.images.networks import grid_shape
from seq2seq.memory_allocator import keep_freed_memory
from seq2seq.model.model import Model, build
from seq2seq.search import SearchOptions, SearchRequest, SlotTable
from training.recipe import load_recipe

SIZES = {"500 x 375": (500, 375), "4000 x 3000": (4000, 3000)}
FORMS = {"500 x 375": ("JPEG", "PNG", "WebP"), "4000 x 3000": ("JPEG", "WebP")}  # as PNG it exceeds the limit
NETWORKS = {"small, 128 pixels": ("small", 128), "resnet50, 224 pixels": ("resnet50", 224)}
VOCABULARY, WORDS, WRITTEN = 8000, 12, 20

NOTES = (
    "One thread. *Decoding* is from a file to 128 x 128 pixels, its checks included. *Encoding* is a batch of 8 "
    "through the network and the projection.",
    "*Request* is a sentence with a picture from bytes to the last word, alone; *share* is of decoding and encoding.",
)


def photograph(width: int, height: int, form: str) -> bytes:
    """Smooth noise."""
    random = np.random.default_rng(1)
    coarse = Image.fromarray(random.integers(0, 256, (height // 8, width // 8, 3), dtype=np.uint8))
    file = io.BytesIO()
    coarse.resize((width, height), Image.Resampling.BICUBIC).save(file, form, quality=85)
    return file.getvalue()


def model_of(kind: str, size: int) -> Model:
    network = ImageNetwork.model_validate({"kind": kind, "size": size})
    rows, columns, features = grid_shape(network)
    grid = ImageGrid(rows=rows, columns=columns, features=features, network=network)
    words = TextVocabulary(vocabulary=VOCABULARY)
    chosen = load_recipe("multimodal_hierarchical").model.model_dump(exclude={"dropout"})
    torch.manual_seed(1)
    return build(ModelConfig(**chosen, sources={"source": words, "image": grid}, target=words)).eval()


def requester(model: Model, size: int, data: bytes) -> Callable[[], None]:
    options = SearchOptions(beam=5, min_length=WRITTEN, max_length=WRITTEN)
    regions = model.config.images["image"].regions
    sentence = torch.randint(4, VOCABULARY, (WORDS,)).tolist()

    def answer() -> None:
        image = ImageInput(torch.from_numpy(decode_image(data, size))[None], torch.tensor([regions]))
        table = SlotTable(model, options.beam)
        table.admit(collate({"source": [sentence]}, images={"image": image}), [SearchRequest(0, options, WRITTEN)])
        while table.active:
            table.step()
            table.pop_finished()

    return answer


def encoder(model: Model, size: int, pictures: int) -> Callable[[], None]:
    regions = model.config.images["image"].regions
    pixels = torch.randint(0, 256, (pictures, size, size, 3), dtype=torch.uint8)
    image = ImageInput(pixels, torch.full((pictures,), regions))

    @torch.inference_mode()
    def encode() -> None:
        model.images["image"](image)

    return encode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", action="store_true", help="keep the result in benchmarks/results/")
    asked = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(1)
    files = {f"{form}, {name}": photograph(*SIZES[name], form) for name, forms in FORMS.items() for form in forms}
    work: dict[str, Callable[[], None]] = {
        f"decoding {name}": lambda data=data: decode_image(data, 128)
        for name, data in files.items()  # type: ignore[misc]
    }
    photo = files["JPEG, 500 x 375"]
    for name, (kind, size) in NETWORKS.items():
        model = model_of(kind, size)
        work[f"encoding {name}"] = encoder(model, size, 8)
        work[f"encoding one, {name}"] = encoder(model, size, 1)
        work[f"request, {name}"] = requester(model, size, photo)
    with alone():
        seconds = interleaved(work, asked.rounds, 2)
    times = {name: median(runs) for name, runs in seconds.items()}
    rows = []
    for name, took in times.items():
        pictures = 8 if name.startswith("encoding ") and not name.startswith("encoding one") else 1
        share = ""
        if name.startswith("request, "):
            network = name.removeprefix("request, ")
            share = f"{(times['decoding JPEG, 500 x 375'] + times[f'encoding one, {network}']) / took:.0%}"
        rows.append([name, f"{1000 * took:.1f}", f"{pictures / took:.0f}", share])
        say(f"{name}: {1000 * took:.1f} ms")
    Report(
        "images", "Pictures at serving, one thread", ["what", "ms", "a second", "share of the request"], rows, [*NOTES],
        {"seconds": seconds},
    ).publish(asked.save)  # fmt: skip


if __name__ == "__main__":
    main()
