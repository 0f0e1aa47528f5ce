"""The multimodal corpus: English sentences about images and their German translations, from the frames of scenes.yaml.

A sentence with an ambiguous word occurs twice with the same English, once with an image of each meaning. The text never
shows which is meant, so that a guess is right half the time.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from tools.demo_world.choices import Choices
from tools.demo_world.grammar.english import English
from tools.demo_world.grammar.german import German
from tools.demo_world.grammar.lexicon import (
    Case,
    Determiner,
    Gender,
    Noun,
    Record,
    Words,
    grammar,
    lexicon,
    read_yaml,
)
from tools.demo_world.pairs import Word
from tools.demo_world.text import capitalize_first, join_words
from training.data.images.drawing import SIZE, Colour, DrawnObject, SceneImage, drawings, render

Split = Literal["train", "dev", "test"]
Box = tuple[int, int, int, int]

CELL = 32  # side of a grid cell, in pixels
GRID = SIZE // CELL  # cells per side


@dataclass(frozen=True)
class ScenePlan:
    """The number of rows of each split, and the shares of rows with a property."""

    seed: int = 1
    train: int = 5_000
    dev: int = 300
    test: int = 300
    ambiguous: float = 0.8  # share with an ambiguous word
    without_image: float = 1 / 3  # share of train


SCENES = ScenePlan()


class Relation(Record):
    """A spatial relation; `step`: rows and columns from the other object to the first."""

    en: str
    de: str
    step: tuple[int, int]


class SceneFrame(Record):
    """A sentence in both languages, with parts in braces."""

    weight: int
    en: Words
    de: Words

    def has(self, name: str) -> bool:
        """Whether a part with this name occurs."""
        return any(parse_token(token)[0] == name for token in (*self.en, *self.de))


class SceneRules(Record):
    """The content of scenes.yaml."""

    ambiguous: dict[str, tuple[tuple[str, Gender, str], tuple[str, Gender, str]]]
    weak: list[str]
    plain: list[str]
    colours: list[str]
    viewers: list[str]
    verbs: dict[str, str]
    qualities: list[str]
    sizes: dict[str, int]
    size: int
    backgrounds: list[Colour]
    chances: dict[Literal["quality", "size", "colour"], float]
    determiners: list[Determiner]
    relations: list[Relation]
    frames: list[SceneFrame]

    def meanings(self, english: str) -> tuple[Noun, Noun]:
        """The two German nouns that an ambiguous English word can mean."""
        first, second = (
            Noun(
                de=de,
                gender=gender,
                plural=plural,
                en=english,
                en_plural=None,
                kind="ambiguous",
                weak=de in self.weak,
                genitive=None,
            )
            for de, gender, plural in self.ambiguous[english]
        )
        return first, second


@lru_cache(maxsize=1)
def rules() -> SceneRules:
    return SceneRules.model_validate(read_yaml("scenes.yaml"))


@dataclass(frozen=True)
class Description:
    """The noun phrase for an object. `nouns`: the one or two German nouns that its English noun can mean.

    `quality`, `size` and `colour` are German adjectives.
    """

    nouns: tuple[Noun, ...]
    determiner: Determiner
    quality: str | None = None
    size: str | None = None
    colour: str | None = None

    @property
    def adjectives(self) -> tuple[str, ...]:
        return tuple(adjective for adjective in (self.quality, self.size, self.colour) if adjective)


@dataclass(frozen=True)
class Reading:
    """The meaning of an ambiguous word in a row, and its other meaning.

    `word`: English; `reading`, `other`: German lemmas; `form`, `other_form`: the inflected German words in this row's
    target and in that of the other image; `box`: the bounding box of the object that is meant, in pixels: left, top,
    right, bottom (exclusive), None without an image.
    """

    word: str
    reading: str
    other: str
    form: str
    other_form: str
    box: Box | None

    def json_line(self) -> str:
        """This reading as a JSON object, with the image's size."""
        size = None if self.box is None else [SIZE, SIZE]
        return json.dumps(vars(self) | {"size": size}, ensure_ascii=False)


@dataclass(frozen=True)
class Scene:
    """A row: the number of its frame, both texts, an image, and the reading of an ambiguous word; None if absent."""

    frame: int
    en: str
    de: str
    image: SceneImage | None
    reading: Reading | None


def scene_corpus(plan: ScenePlan = SCENES) -> dict[Split, list[Scene]]:
    """The corpus of a plan. No sentence is in two splits; every row of dev and test has an image."""
    generator = SceneGenerator(plan.seed)
    sizes: dict[Split, int] = {"test": plan.test, "dev": plan.dev, "train": plan.train}
    corpus: dict[Split, list[Scene]] = {}
    for split, size in sizes.items():
        ambiguous = round(size * plan.ambiguous / 2)  # sentences, each in two rows
        rows: list[Scene] = []
        words = list(rules().ambiguous)
        for index in range(size - ambiguous):
            word = words[index % len(words)] if index < ambiguous else None
            scenes = generator.scenes(word)
            if split == "train" and generator.choices.chance(plan.without_image):
                scenes = [without_image(scene) for scene in scenes]
            rows.extend(scenes)
        corpus[split] = generator.choices.sample(rows, len(rows))
    return {"train": corpus["train"], "dev": corpus["dev"], "test": corpus["test"]}


def without_image(scene: Scene) -> Scene:
    """The row without its image and bounding box."""
    return replace(scene, image=None, reading=scene.reading and replace(scene.reading, box=None))


def index_row(split: Split, line: int, image: SceneImage) -> str:
    """A row of the index of images: the split, the line, the name of the image, and the description of its scene."""
    return f"{split}\t{line}\t{split}-{line:05}.png\t{image.model_dump_json()}"


def bounding_box(drawn: DrawnObject) -> Box:
    """The bounding box of a drawn object in pixels: left, top, right, bottom (the last two exclusive)."""
    _, cover = render(drawn.name, drawn.size, drawn.colour, drawn.mirrored)
    rows, columns = np.nonzero(cover.any(axis=1))[0], np.nonzero(cover.any(axis=0))[0]
    return (
        drawn.left + int(columns[0]),
        drawn.top + int(rows[0]),
        drawn.left + int(columns[-1]) + 1,
        drawn.top + int(rows[-1]) + 1,
    )


@dataclass(frozen=True)
class Parts:
    """The parts of a frame, by their names in braces."""

    thing: Description
    other: Description
    viewer: str
    viewer_determiner: Determiner
    verb: str
    quality: str
    relation: Relation


@lru_cache(maxsize=1024)
def parse_token(token: str) -> tuple[str, str]:
    """A token of a frame: the name in braces and the form after its dot; both empty for a word."""
    if not token.startswith("{"):
        return "", ""
    name, _, form = token[1:-1].partition(".")
    return name, form


class SceneGenerator:
    """Generates sentences and their images. The same seed generates the same scenes."""

    def __init__(self, seed: int) -> None:
        self.rules = rules()
        self.german = German(lexicon(), grammar())
        self.english = English(lexicon(), grammar())
        self.choices = Choices(seed)
        self.used: set[str] = set()

    def scenes(self, word: str | None) -> list[Scene]:
        """The rows of the next sentence: two, one per meaning, if `word` is an ambiguous word; one if it is None."""
        while True:
            number, parts = self.choose_parts(word)
            frame = self.rules.frames[number]
            english = self.text([token for each in frame.en for token in self.english_words(each, parts)])
            german = [self.german_text(frame, parts, noun) for noun in parts.thing.nouns]
            if self.used.isdisjoint([english, *german]):
                self.used.update([english, *german])
                break
        images = [self.image(parts, noun, frame) for noun in parts.thing.nouns]
        readings = self.readings(frame, word, parts.thing.nouns, images) if word else [None]
        return [
            Scene(number, english, text, image, reading)
            for text, image, reading in zip(german, images, readings, strict=True)
        ]

    def choose_parts(self, word: str | None) -> tuple[int, Parts]:
        """A random frame's number and its parts."""
        choices = self.choices
        number = choices.weighted([(frame.weight, n) for n, frame in enumerate(self.rules.frames)])
        thing, other = self.description(word), self.description(None)
        while other.nouns == thing.nouns:
            other = self.description(None)
        return number, Parts(
            thing,
            other,
            viewer=choices.one(self.rules.viewers),
            viewer_determiner=choices.weighted([(3, self.rules.determiners[0]), (1, self.rules.determiners[1])]),
            verb=choices.one(list(self.rules.verbs)),
            quality=choices.one([quality for quality in self.rules.qualities if quality != thing.quality]),
            relation=choices.one(self.rules.relations),
        )

    def readings(
        self, frame: SceneFrame, word: str, nouns: Sequence[Noun], images: Sequence[SceneImage]
    ) -> list[Reading | None]:
        """The readings of an ambiguous word with each of two images, whose first object is the one that is meant."""
        forms = [self.german.noun(noun, "s", self.case(frame)) for noun in nouns]
        return [
            Reading(word, nouns[i].de, nouns[1 - i].de, forms[i], forms[1 - i], bounding_box(images[i].objects[0]))
            for i in (0, 1)
        ]

    @staticmethod
    def case(frame: SceneFrame) -> Case:
        """The case of a frame's `thing`."""
        forms = {form for name, form in map(parse_token, frame.de) if name == "thing"}
        return "accusative" if "accusative" in forms else "nominative"

    # Contents.

    def description(self, word: str | None) -> Description:
        """A noun phrase with random determiner and adjectives, for an ambiguous word or a random unambiguous noun."""
        chance, chances = self.choices.chance, self.rules.chances
        determiner = self.choices.weighted([(each.weight, each) for each in self.rules.determiners])
        quality = self.choices.one(self.rules.qualities) if chance(chances["quality"]) else None
        size = self.choices.one(list(self.rules.sizes)) if not quality and chance(chances["size"]) else None
        if word:
            return Description(self.rules.meanings(word), determiner, quality, size)
        colour = self.choices.one(self.rules.colours) if not quality and chance(chances["colour"]) else None
        return Description((lexicon().noun[self.choices.one(self.rules.plain)],), determiner, quality, size, colour)

    def image(self, parts: Parts, noun: Noun, frame: SceneFrame) -> SceneImage:
        """An image of the objects that the sentence names, and of unrelated ones: two or three objects in all."""
        choices = self.choices
        cells = [(row, column) for row in range(GRID) for column in range(GRID)]
        down, right = parts.relation.step if frame.has("relation") else (0, 0)
        first = choices.one([(row, column) for row, column in cells if (row - down, column - right) in cells])
        free = [cell for cell in cells if cell != first]
        objects = [self.drawn_object(noun.de, parts.thing, first)]
        named = frame.has("other")
        if named:
            second = (first[0] - down, first[1] - right) if frame.has("relation") else choices.one(free)
            free.remove(second)
            objects.append(self.drawn_object(parts.other.nouns[0].de, parts.other, second))
        unnamed = [name for name in self.rules.plain if name not in (noun.de, parts.other.nouns[0].de)]
        count = choices.one([0, 1] if named else [1, 2])
        for name, cell in zip(choices.sample(unnamed, count), choices.sample(free, count), strict=True):
            objects.append(self.drawn_object(name, None, cell))
        return SceneImage(background=choices.one(self.rules.backgrounds), objects=tuple(objects))

    def drawn_object(self, name: str, described: Description | None, cell: tuple[int, int]) -> DrawnObject:
        """An object at a random position in a cell, of the size and the colour described, by default of any colour."""
        size = self.rules.sizes[described.size] if described and described.size else self.rules.size
        colour = described.colour if described else None
        if drawings().colourable(name):
            colour = lexicon().adjectives[colour or self.choices.one(self.rules.colours)].en[0]
        top, left = (CELL * index + int(self.choices.random.random() * (CELL - size + 1)) for index in cell)
        mirrored = self.choices.chance(0.5)
        return DrawnObject(name=name, size=size, left=left, top=top, colour=colour, mirrored=mirrored)

    # Sentences.

    def english_words(self, token: str, parts: Parts) -> list[str]:
        """The English words of a token."""
        name, form = parse_token(token)
        match name:
            case "":
                return [token]
            case "thing" | "other":
                described = parts.thing if name == "thing" else parts.other
                adjectives = [lexicon().adjectives[adjective].en[0] for adjective in described.adjectives]
                return [described.determiner.en["s"], *adjectives, described.nouns[0].en]
            case "viewer":
                noun = lexicon().noun.get(parts.viewer)
                return [parts.viewer_determiner.en["s"], noun.en] if noun else [parts.viewer]
            case "quality":
                return [lexicon().adjectives[parts.quality].en[0]]
            case "relation":
                return parts.relation.en.split()
        verb, *particle = (self.rules.verbs[parts.verb] if name == "verb" else name).split()
        return [self.english.verb(verb, form), *particle]

    def german_text(self, frame: SceneFrame, parts: Parts, noun: Noun) -> str:
        """The German sentence, if `thing` means this noun."""
        words: list[str] = []
        for token in frame.de:
            more = self.german_words(token, parts, noun)
            contraction = words and grammar().german.contractions.get(f"{words[-1]} {more[0]}")
            words = [*words[:-1], contraction, *more[1:]] if contraction else [*words, *more]
        return self.text(words)

    def german_words(self, token: str, parts: Parts, noun: Noun) -> list[str]:
        """The German words of a token, if `thing` means this noun."""
        name, form = parse_token(token)
        match name, form:
            case "", _:
                return [token]
            case "thing", "it":
                return [{"m": "er", "f": "sie", "n": "es"}[noun.gender]]
            case "thing", "who":
                return [self.german.relative_pronoun(noun, "s", "accusative")]
            case "thing", ("nominative" | "accusative" | "dative") as case:
                return self.phrase(parts.thing, noun, case)
            case "other", ("nominative" | "accusative" | "dative") as case:
                return self.phrase(parts.other, parts.other.nouns[0], case)
            case "viewer", _:
                viewer = lexicon().noun.get(parts.viewer)
                if viewer is None:
                    return [parts.viewer]
                return self.phrase(Description((viewer,), parts.viewer_determiner), viewer, "nominative")
            case "quality", _:
                return [parts.quality]
            case "relation", _:
                return parts.relation.de.split()
        return [self.german.verb(parts.verb if name == "verb" else name, form)[0]]

    def phrase(self, described: Description, noun: Noun, case: Case) -> list[str]:
        """The German noun phrase: determiner, adjectives, noun."""
        determiner = described.determiner
        return [
            self.german.determiner(determiner, noun, "s", case),
            *(self.german.adjective(adjective, determiner, noun, "s", case) for adjective in described.adjectives),
            self.german.noun(noun, "s", case),
        ]

    def text(self, words: list[str]) -> str:
        """The sentence of these words, with `an` for `a` before a vowel."""
        following = [*words[1:], ""]
        articles = [
            self.english.article(after) if word == "a" else word for word, after in zip(words, following, strict=True)
        ]
        return join_words(capitalize_first(tuple(map(Word, articles))))
