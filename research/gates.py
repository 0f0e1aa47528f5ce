"""What the contextual gates of a trained system do (Wu et al. 2018, section 4.3): their values by word class, and the
dev set's BLEU with the gate fixed at a value. Word classes are the Hanover Tagger's (Wartena 2019; package HanTa)."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from interlinear.cli.console import progress, say
from interlinear.cli.evaluation.scoring import System
from interlinear.cli.evaluation.test_sets import TestSet, read_test_set
from interlinear.cli.options import TestSetSource
from interlinear.generation.generator import SequenceGenerator
from interlinear.installation import how_to_install
from interlinear.metrics.catalogue import select_metrics
from interlinear.models.recurrent.gates import ContextualGate
from research.records import ClassGate, GateAnalysis

FIXED_VALUES = (0.0, 0.25, 0.5, 0.75, 1.0)

MODELS = {"en": "morphmodel_en.pgz", "de": "morphmodel_ger.pgz"}

# Classes by the beginnings of tags, the first that fits: of CLAWS 5 (English) and of STTS (German).
CLASSES = {
    "en": {
        "name": ("NP0",), "noun": ("N",), "auxiliary": ("VM", "VB", "VD", "VH"), "verb": ("V",), "adjective": ("AJ",),
        "adverb": ("AV", "XX0"), "number": ("CRD", "ORD"), "determiner": ("AT0", "D", "POS"), "pronoun": ("PN", "EX0"),
        "preposition": ("PR", "TO0"), "conjunction": ("CJ",), "punctuation": ("PU",),
    },
    "de": {
        "name": ("NE",), "noun": ("N",), "auxiliary": ("VA", "VM"), "verb": ("V",), "adjective": ("ADJ",),
        "adverb": ("ADV", "PTKNEG", "PAV", "PROAV"), "number": ("CARD",),
        "determiner": ("ART", "PDAT", "PIAT", "PPOSAT"), "preposition": ("AP", "PTKZU"), "conjunction": ("KO",),
        "pronoun": ("P",), "punctuation": ("$",),
    },
}  # fmt: skip


def has_gates(generation: SequenceGenerator) -> bool:
    return "gated" in generation.bundle.model.attention_kinds


def analyse_gates(generation: SequenceGenerator, data: str, test: str, data_root: Path | None) -> GateAnalysis:
    """The gates' values over the references of a test set by forced decoding, and dev BLEU with fixed gates."""
    system = System(data, generation)
    test_set, dev = (
        read_test_set(TestSetSource(data, split, None, [], data_root), [system], False) for split in (test, "dev")
    )
    return GateAnalysis(
        by_class=gates_by_class(generation, test_set),
        fixed={value: bleu_with_gate(system, dev, value) for value in FIXED_VALUES},
        learned=bleu_with_gate(system, dev, None),
    )


def gates_by_class(generation: SequenceGenerator, test_set: TestSet) -> dict[str, ClassGate]:
    """Number of reference words and mean gate by word class; empty where the language has no tagger, or HanTa is not
    installed."""
    language = test_set.language
    if language is None or language not in CLASSES:
        return {}
    if find_spec("HanTa") is None:
        say(f"gates by word class are left out, for want of HanTa: {how_to_install('analysis')}")
        return {}
    (source,) = test_set.texts
    references = test_set.references[0]
    values: dict[str, list[float]] = defaultdict(list)
    pairs = [({source: text}, reference) for text, reference in zip(test_set.sources, references, strict=True)]
    explanations = generation.align(pairs, raw=test_set.raw)
    for explanation in progress(explanations, f"gates, {test_set.name}", len(pairs)):
        words = [word.text for word in explanation.target]
        for name, gate in zip(word_classes(words, language), explanation.gate or (), strict=True):
            values[name].append(gate)
    return {name: ClassGate(words=len(gates), mean=sum(gates) / len(gates)) for name, gates in sorted(values.items())}


def bleu_with_gate(system: System, test_set: TestSet, value: float | None) -> float:
    """BLEU of a test set with all gates fixed at a value; None: as they were learned."""
    assert system.generation
    (bleu,) = select_metrics(["bleu"], test_set.reading(None, None))
    label = f"{test_set.name}, gate {'as learned' if value is None else value}"
    with fixed_gates(system.generation, value):
        return bleu.score(system.outputs(test_set, label=label), test_set.answers()).score


@contextmanager
def fixed_gates(generation: SequenceGenerator, value: float | None) -> Iterator[None]:
    """Fix the contextual gates of a model at a value meanwhile."""
    gates = [module for module in generation.bundle.model.modules() if isinstance(module, ContextualGate)]
    for gate in gates:
        gate.fixed = value
    try:
        yield
    finally:
        for gate in gates:
            gate.fixed = None


def word_classes(words: Sequence[str], language: str) -> list[str]:
    """The class of each word of a sentence; `other` for tags outside the classes."""
    tags = [tag for _, _, tag in load_tagger(language).tag_sent(list(words))] if words else []
    classes = CLASSES[language].items()
    return [next((name for name, beginnings in classes if tag.startswith(beginnings)), "other") for tag in tags]


@cache
def load_tagger(language: str) -> Any:
    from HanTa.HanoverTagger import HanoverTagger  # an extra

    return HanoverTagger(MODELS[language])
