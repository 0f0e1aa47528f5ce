"""What the contextual gates of a trained system do (Wu et al. 2018, section 4.3): their values by word class, and the
dev set's BLEU with the gate fixed at a value."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from interlinear.console import progress, say

if TYPE_CHECKING:
    from interlinear.evaluation.scoring import System
    from interlinear.evaluation.test_sets import TestSet
    from seq2seq.generate import SequenceGenerator
    from training.reproduce.gates import ClassGate, GateAnalysis

FIXED_VALUES = (0.0, 0.25, 0.5, 0.75, 1.0)


def has_gates(generation: "SequenceGenerator") -> bool:
    return generation.bundle.card.model.contextual_gates


def analyse_gates(generation: "SequenceGenerator", data: str, test: str, data_root: Path | None) -> "GateAnalysis":
    """The gates' values over the references of a test set by forced decoding, and dev BLEU with fixed gates."""
    from interlinear.evaluation.scoring import System
    from interlinear.evaluation.test_sets import TestSetSource
    from training.reproduce.gates import GateAnalysis

    system = System(data, generation)
    test_set, dev = (TestSetSource(data, split, None, [], data_root).read([system], False) for split in (test, "dev"))
    return GateAnalysis(
        by_class=gates_by_class(generation, test_set),
        fixed={value: bleu_with_gate(system, dev, value) for value in FIXED_VALUES},
        learned=bleu_with_gate(system, dev, None),
    )


def gates_by_class(generation: "SequenceGenerator", test_set: "TestSet") -> "dict[str, ClassGate]":
    """Number of reference words and mean gate by word class; empty where the language has no tagger, or HanTa is not
    installed."""
    from seq2seq.installation import how_to_install
    from training.reproduce.gates import ClassGate
    from training.reproduce.word_classes import has_tagger, tagger_languages, word_classes

    language = test_set.language
    if language not in tagger_languages():
        return {}
    if not has_tagger():
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


def bleu_with_gate(system: "System", test_set: "TestSet", value: float | None) -> float:
    """BLEU of a test set with all gates fixed at a value; None: as they were learned."""
    from seq2seq.metrics.catalogue import select_metrics

    assert system.generation
    (bleu,) = select_metrics(["bleu"], test_set.reading(None, None))
    label = f"{test_set.name}, gate {'as learned' if value is None else value}"
    with fixed_gates(system.generation, value):
        return bleu.score(system.outputs(test_set, label=label), test_set.answers()).score


@contextmanager
def fixed_gates(generation: "SequenceGenerator", value: float | None) -> "Iterator[None]":
    """Fix the contextual gates of a model at a value meanwhile."""
    from seq2seq.layers.gates import ContextualGate

    gates = [module for module in generation.bundle.model.modules() if isinstance(module, ContextualGate)]
    for gate in gates:
        gate.fixed = value
    try:
        yield
    finally:
        for gate in gates:
            gate.fixed = None
