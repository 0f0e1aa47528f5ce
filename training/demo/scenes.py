"""English sentences about pictures, and their German: the frames of scenes.yaml, filled by seeded choices.

A sentence with an ambiguous word is said twice, with the same English, of a picture that shows the one thing that the
word may mean and of a picture that shows the other: the text never tells which is meant, and guessing is right half the
time.
"""

import io
import json
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

from training.demo.choices import Choices
from training.demo.drawing import PLACE, SIDE, SIZE, Box, Picture, Thing, drawings
from training.demo.english import English
from training.demo.german import German
from training.demo.lexicon import Case, Determiner, Gender, Noun, Record, Words, grammar, lexicon, read
from training.demo.pairs import Word
from training.demo.sentences import capitalised, written

Split = Literal["train", "dev", "test"]


@dataclass(frozen=True)
class ScenePlan:
    """How many rows each split has, and which part of them."""

    seed: int = 1
    train: int = 5_000
    dev: int = 300
    test: int = 300
    ambiguous: float = 0.8  # part that has an ambiguous word
    unseen: float = 1 / 3  # part of train that has no picture


SCENES = ScenePlan()


class Relation(Record):
    en: str
    de: str
    step: tuple[int, int]


class SceneFrame(Record):
    weight: int
    en: Words
    de: Words

    def has(self, name: str) -> bool:
        return any(part(token)[0] == name for token in (*self.en, *self.de))


class SceneRules(Record):
    """What scenes.yaml says."""

    ambiguous: dict[str, tuple[tuple[str, Gender, str], tuple[str, Gender, str]]]
    weak: list[str]
    plain: list[str]
    colours: list[str]
    viewers: list[str]
    verbs: dict[str, str]
    qualities: list[str]
    sizes: list[str]
    chances: dict[Literal["quality", "size", "colour"], float]
    determiners: list[Determiner]
    relations: list[Relation]
    frames: list[SceneFrame]

    def meanings(self, english: str) -> tuple[Noun, Noun]:
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
    return SceneRules.model_validate(read("scenes.yaml"))


@dataclass(frozen=True)
class Named:
    """A thing as a sentence names it. `nouns`: what its English may mean, one or two; the others are adjectives."""

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
    """What an ambiguous word means in a row, and what it would mean beside another picture.

    `form`, `other_form`: the German words as they stand in the row's target, and in the other's; `box`: the deciding
    thing's in pixels of the picture, left, top, and just behind it right, bottom; None without a picture.
    """

    word: str
    reading: str
    other: str
    form: str
    other_form: str
    box: Box | None

    def line(self) -> str:
        size = None if self.box is None else [SIZE, SIZE]
        return json.dumps(vars(self) | {"size": size}, ensure_ascii=False)


@dataclass(frozen=True)
class Scene:
    """A row: a frame's number, both texts, a picture, and the reading of the ambiguous word, where there is one."""

    frame: int
    en: str
    de: str
    picture: Picture | None
    reading: Reading | None


def scene_corpus(plan: ScenePlan = SCENES) -> dict[Split, list[Scene]]:
    """The corpus of a plan: no sentence is in two splits; test and dev have a picture in every row."""
    painter = SceneGenerator(plan.seed)
    sizes: dict[Split, int] = {"test": plan.test, "dev": plan.dev, "train": plan.train}
    corpus: dict[Split, list[Scene]] = {}
    for split, size in sizes.items():
        twice = round(size * plan.ambiguous / 2)
        rows: list[Scene] = []
        words = list(rules().ambiguous)
        for index in range(size - twice):
            word = words[index % len(words)] if index < twice else None
            scenes = painter.scenes(word)
            if split == "train" and painter.choices.chance(plan.unseen):
                scenes = [without_picture(scene) for scene in scenes]
            rows.extend(scenes)
        corpus[split] = painter.choices.some(rows, len(rows))
    return {"train": corpus["train"], "dev": corpus["dev"], "test": corpus["test"]}


def without_picture(scene: Scene) -> Scene:
    return replace(scene, picture=None, reading=scene.reading and replace(scene.reading, box=None))


def make_scenes(plan: ScenePlan, folder: Path) -> None:
    """Write the corpus of a plan: SPLIT.en, SPLIT.de, SPLIT.reading (JSON lines), images.tar and index.tsv."""
    index: list[str] = []
    with tarfile.open(folder / "images.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        for split, scenes in scene_corpus(plan).items():
            readings = [scene.reading.line() if scene.reading else "null" for scene in scenes]
            for suffix, lines in (
                ("en", [scene.en for scene in scenes]),
                ("de", [scene.de for scene in scenes]),
                ("reading", readings),
            ):
                (folder / f"{split}.{suffix}").write_bytes("".join(f"{line}\n" for line in lines).encode())
            for number, scene in enumerate(scenes):
                if scene.picture is None:
                    continue
                content = scene.picture.png()
                member = tarfile.TarInfo(f"{split}-{number:05}.png")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
                index.append(f"{split}\t{number}\t{member.name}\n")
    (folder / "index.tsv").write_bytes("".join(index).encode())


@dataclass(frozen=True)
class Parts:
    """What a frame's names in braces stand for; `the`: the viewer's determiner."""

    thing: Named
    other: Named
    viewer: str
    the: Determiner
    verb: str
    quality: str
    relation: Relation


@lru_cache(maxsize=1024)
def part(token: str) -> tuple[str, str]:
    """A token of a frame: the name in braces and the form behind its dot; empty for a word."""
    if not token.startswith("{"):
        return "", ""
    name, _, form = token[1:-1].partition(".")
    return name, form


class SceneGenerator:
    """Says sentences and paints their pictures; the same seed says and paints the same."""

    def __init__(self, seed: int) -> None:
        self.rules = rules()
        self.german = German(lexicon(), grammar())
        self.english = English(lexicon(), grammar())
        self.choices = Choices(seed)
        self.said: set[str] = set()

    def scenes(self, word: str | None) -> list[Scene]:
        """The next sentence with this ambiguous word, of each of its meanings; or with none of them, once."""
        while True:
            number, parts = self.chosen(word)
            frame = self.rules.frames[number]
            english = self.text([token for each in frame.en for token in self.in_english(each, parts)])
            german = [self.in_german(frame, parts, noun) for noun in parts.thing.nouns]
            if self.said.isdisjoint([english, *german]):
                self.said.update([english, *german])
                break
        pictures = [self.picture(parts, noun, frame) for noun in parts.thing.nouns]
        readings = self.readings(frame, word, parts.thing.nouns, pictures) if word else [None]
        return [
            Scene(number, english, text, picture, reading)
            for text, picture, reading in zip(german, pictures, readings, strict=True)
        ]

    def chosen(self, word: str | None) -> tuple[int, Parts]:
        """A frame's number, and what its names stand for."""
        choices = self.choices
        number = choices.weighted([(frame.weight, n) for n, frame in enumerate(self.rules.frames)])
        thing, other = self.named(word), self.named(None)
        while other.nouns == thing.nouns:
            other = self.named(None)
        return number, Parts(
            thing,
            other,
            viewer=choices.one(self.rules.viewers),
            the=choices.weighted([(3, self.rules.determiners[0]), (1, self.rules.determiners[1])]),
            verb=choices.one(list(self.rules.verbs)),
            quality=choices.one([quality for quality in self.rules.qualities if quality != thing.quality]),
            relation=choices.one(self.rules.relations),
        )

    def readings(
        self, frame: SceneFrame, word: str, nouns: Sequence[Noun], pictures: Sequence[Picture]
    ) -> list[Reading | None]:
        """What an ambiguous word means beside each of two pictures, whose first thing decides it."""
        forms = [self.german.noun(noun, "s", self.case(frame)) for noun in nouns]
        return [
            Reading(word, nouns[i].de, nouns[1 - i].de, forms[i], forms[1 - i], pictures[i].things[0].box)
            for i in (0, 1)
        ]

    @staticmethod
    def case(frame: SceneFrame) -> Case:
        """The case that a frame puts its thing in."""
        forms = {form for name, form in map(part, frame.de) if name == "thing"}
        return "accusative" if "accusative" in forms else "nominative"

    # What there is.

    def named(self, word: str | None) -> Named:
        """A thing with a determiner and perhaps adjectives: an ambiguous word, or else any plain noun."""
        chance, chances = self.choices.chance, self.rules.chances
        determiner = self.choices.weighted([(each.weight, each) for each in self.rules.determiners])
        quality = self.choices.one(self.rules.qualities) if chance(chances["quality"]) else None
        size = self.choices.one(self.rules.sizes) if not quality and chance(chances["size"]) else None
        if word:
            return Named(self.rules.meanings(word), determiner, quality, size)
        colour = self.choices.one(self.rules.colours) if not quality and chance(chances["colour"]) else None
        return Named((lexicon().noun[self.choices.one(self.rules.plain)],), determiner, quality, size, colour)

    def picture(self, parts: Parts, noun: Noun, frame: SceneFrame) -> Picture:
        """The thing, what else the sentence names, and one or two things, in all, that are just there."""
        choices = self.choices
        places = [(row, column) for row in range(SIDE) for column in range(SIDE)]
        down, right = parts.relation.step if frame.has("relation") else (0, 0)
        here = choices.one([(row, column) for row, column in places if (row - down, column - right) in places])
        free = [place for place in places if place != here]
        things = [self.thing(noun.de, parts.thing, here)]
        named = frame.has("other")
        if named:
            there = (here[0] - down, here[1] - right) if frame.has("relation") else choices.one(free)
            free.remove(there)
            things.append(self.thing(parts.other.nouns[0].de, parts.other, there))
        unnamed = [name for name in self.rules.plain if name not in (noun.de, parts.other.nouns[0].de)]
        count = choices.one([0, 1] if named else [1, 2])
        for name, place in zip(choices.some(unnamed, count), choices.some(free, count), strict=True):
            things.append(self.thing(name, None, place))
        return Picture(choices.one(drawings().backgrounds), tuple(things))

    def thing(self, name: str, named: Named | None, place: tuple[int, int]) -> Thing:
        """Something in a place, moved a little in it, of the size and the colour that the sentence says, or of any."""
        size = drawings().sizes[named.size if named and named.size else ""]
        colour = named.colour if named else None
        if drawings().colourable(name):
            colour = lexicon().adjectives[colour or self.choices.one(self.rules.colours)].en[0]
        top, left = (PLACE * at + int(self.choices.random.random() * (PLACE - size + 1)) for at in place)
        return Thing(name, size, left, top, colour, mirrored=self.choices.chance(0.5))

    # What is said of it.

    def in_english(self, token: str, parts: Parts) -> list[str]:
        name, form = part(token)
        match name:
            case "":
                return [token]
            case "thing" | "other":
                said = parts.thing if name == "thing" else parts.other
                adjectives = [lexicon().adjectives[adjective].en[0] for adjective in said.adjectives]
                return [said.determiner.en["s"], *adjectives, said.nouns[0].en]
            case "viewer":
                noun = lexicon().noun.get(parts.viewer)
                return [parts.the.en["s"], noun.en] if noun else [parts.viewer]
            case "quality":
                return [lexicon().adjectives[parts.quality].en[0]]
            case "relation":
                return parts.relation.en.split()
        verb, *particle = (self.rules.verbs[parts.verb] if name == "verb" else name).split()
        return [self.english.verb(verb, form), *particle]

    def in_german(self, frame: SceneFrame, parts: Parts, noun: Noun) -> str:
        words: list[str] = []
        for token in frame.de:
            more = self.german_words(token, parts, noun)
            drawn = words and grammar().german.contractions.get(f"{words[-1]} {more[0]}")
            words = [*words[:-1], drawn, *more[1:]] if drawn else [*words, *more]
        return self.text(words)

    def german_words(self, token: str, parts: Parts, noun: Noun) -> list[str]:
        """A token's words, its thing meaning this noun."""
        name, form = part(token)
        match name, form:
            case "", _:
                return [token]
            case "thing", "it":
                return [{"m": "er", "f": "sie", "n": "es"}[noun.gender]]
            case "thing", "who":
                return [self.german.relative(noun, "s", "accusative")]
            case "thing", ("nominative" | "accusative" | "dative") as case:
                return self.phrase(parts.thing, noun, case)
            case "other", ("nominative" | "accusative" | "dative") as case:
                return self.phrase(parts.other, parts.other.nouns[0], case)
            case "viewer", _:
                viewer = lexicon().noun.get(parts.viewer)
                return self.phrase(Named((viewer,), parts.the), viewer, "nominative") if viewer else [parts.viewer]
            case "quality", _:
                return [parts.quality]
            case "relation", _:
                return parts.relation.de.split()
        return [self.german.verb(parts.verb if name == "verb" else name, form)[0]]

    def phrase(self, named: Named, noun: Noun, case: Case) -> list[str]:
        adjectives = [self.german.adjective(each, named.determiner, noun, "s", case) for each in named.adjectives]
        return [
            self.german.determiner(named.determiner, noun, "s", case),
            *adjectives,
            self.german.noun(noun, "s", case),
        ]

    def text(self, words: list[str]) -> str:
        following = [*words[1:], ""]
        articles = [
            self.english.article(after) if word == "a" else word for word, after in zip(words, following, strict=True)
        ]
        return written(capitalised(tuple(map(Word, articles))))
