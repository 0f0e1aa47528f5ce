"""Models use images to resolve words that the text leaves ambiguous, on the generated set with gold readings."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

import interlinear
from interlinear.explanation import Explanation
from interlinear.generation.generator import SequenceGenerator
from interlinear.generation.request import GenerationResult, Request
from training.data.dataset import open_dataset, read_rows
from training.data.images.images import SplitImages
from training.loop.trainer import train
from training.runs.job import create_job

NEAR = 8  # pixels around the deciding object that count as part of it: half a region


class Scenes:
    """The test sentences with an ambiguous word, their images and their gold data."""

    def __init__(self, generation: SequenceGenerator) -> None:
        self.generation = generation
        dataset = open_dataset("demo-image")
        read = SplitImages(dataset.image("test", "image")).reader_for(generation.bundle.card.model.images["image"])
        rows = [row for row in read_rows(dataset, "test", ["source", "reading"]) if json.loads(row.texts[1])]
        self.texts = [row.texts[0] for row in rows]
        self.gold = [json.loads(row.texts[1]) for row in rows]
        self.pictures = [read(row.number - 1) for row in rows]

    def answers(self, pictures: Sequence[np.ndarray | None]) -> list[GenerationResult]:
        options = self.generation.bundle.card.search
        requests = (
            Request({"source": text}, options, explain=True, images={} if picture is None else {"image": picture})
            for text, picture in zip(self.texts, pictures, strict=True)
        )
        return [answer for answer in self.generation.generate(requests) if isinstance(answer, GenerationResult)]

    def share(self, answers: Sequence[GenerationResult], form: str) -> float:
        """The share of sentences whose ambiguous word was translated to that form of the gold data, e.g. Kran, not
        Kranich."""
        found = [gold[form].lower() in self.written(answer) for gold, answer in zip(self.gold, answers, strict=True)]
        return sum(found) / len(found)

    @staticmethod
    def written(answer: GenerationResult) -> list[str]:
        """The words of the first candidate, in lower case."""
        assert answer.explanation is not None
        return [word.text.lower() for word in answer.explanation.target]

    def others(self) -> list[np.ndarray | None]:
        """For every sentence, the image of the same sentence with its other reading."""
        places = {(text, gold["reading"]): i for i, (text, gold) in enumerate(zip(self.texts, self.gold, strict=True))}
        return [self.pictures[places[text, gold["other"]]] for text, gold in zip(self.texts, self.gold, strict=True)]

    def on_the_object(self, answers: Sequence[GenerationResult], place: Callable[[Explanation, int], int]) -> float:
        """The share of sentences in which a word's largest attention weight lies on the deciding object."""
        hits = []
        for gold, answer in zip(self.gold, answers, strict=True):
            explanation = answer.explanation
            assert explanation is not None and explanation.sources is not None
            words = [i for i, word in enumerate(self.written(answer)) if word == gold["form"].lower()]
            if words:
                grid = explanation.sources["image"].grid
                assert grid is not None
                weights = explanation.sources["image"].matrices["attention"][place(explanation, words[0])]
                row, column = divmod(int(np.argmax(weights)), grid[1])
                x, y = (column + 0.5) * gold["size"][0] / grid[1], (row + 0.5) * gold["size"][1] / grid[0]
                left, top, right, bottom = gold["box"]
                hits.append(left - NEAR <= x <= right + NEAR and top - NEAR <= y <= bottom + NEAR)
        return sum(hits) / len(hits)


def most_of_the_picture(explanation: Explanation, word: int) -> int:
    """Of a word and the three words before it, which depend on its reading too, the one with the largest image
    weight."""
    assert explanation.between is not None
    return max(range(max(0, word - 3), word + 1), key=explanation.between["image"].__getitem__)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_image_determines_the_reading(tmp_path: Path) -> None:
    job = create_job("multimodal_hierarchical", "demo-image", prepared=tmp_path / "prepared", runs=tmp_path / "runs")
    outcome = train(job)
    assert outcome.bundle is not None
    scenes = Scenes(SequenceGenerator(interlinear.load(outcome.bundle)))
    right, none, other = (scenes.answers(p) for p in (scenes.pictures, [None] * len(scenes.texts), scenes.others()))
    assert scenes.share(right, "form") > 0.8
    assert scenes.share(none, "form") == pytest.approx(0.5, abs=0.01)  # each sentence occurs in both readings
    assert scenes.share(other, "other_form") > 0.8
    # An image has 16 regions; an object with its margin covers about two.
    assert scenes.on_the_object(right, most_of_the_picture) > 0.35
