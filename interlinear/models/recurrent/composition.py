"""Composes a decoder from the parts that its config names.

Every part is made here and given to the decoder, whose modules have the names that parameters have.
"""

from torch import nn

from interlinear.components import ATTENTIONS
from interlinear.config import RecurrentConfig
from interlinear.models.recurrent.attend import (
    Attend,
    FixedAnnotations,
    NoCoverage,
    OptionalCoverage,
    OptionalMemoryUpdate,
    SeveralSources,
    SingleSource,
    SourceCoverage,
    UpdatedAnnotations,
    WithWords,
)
from interlinear.models.recurrent.attention import Attention
from interlinear.models.recurrent.cells import build_cell
from interlinear.models.recurrent.coverage import Coverage, LinguisticCoverage, NeuralCoverage
from interlinear.models.recurrent.decoder import ContextsBesideInputs, DecoderParts, GatedContexts, RecurrentDecoder
from interlinear.models.recurrent.first_state import FirstState, ProjectedSummary, SummedStates, ZeroState
from interlinear.models.recurrent.gates import ContextualGate
from interlinear.models.recurrent.memory_update import MemoryUpdate
from interlinear.models.recurrent.multi_source import build_combination
from interlinear.models.recurrent.step_orders import ORDERS

Modules = dict[str, nn.Module]  # by the name that they have in the decoder


def build_decoder(config: RecurrentConfig) -> RecurrentDecoder:
    """The decoder of a config."""
    order, modules = ORDERS[config.decoder], Modules()
    attend, read = compose_attention(config, modules)
    contexts = read + (config.embedding if config.word_attention else 0)
    words = [config.embedding if order.words_enter_cells and not i else 0 for i in range(config.decoder_depth)]
    own = [config.hidden if i or order.mixture_enters_cells else 0 for i in range(config.decoder_depth)]
    beside = contexts if order.contexts_enter_cells and not config.contextual_gates else 0
    cells = [build_cell(config, words=w, inputs=x + beside) for w, x in zip(words, own, strict=True)]
    modules["cells"] = nn.ModuleList(cells)
    gates = [
        ContextualGate(w, x, config.hidden, read, config.embedding, cell.gates_count)
        for w, x, cell in zip(words, own, cells, strict=True)
        if config.contextual_gates
    ]
    if gates:
        modules["gates"] = nn.ModuleList(gates)
    first = compose_first_state(config, len(cells[0].leaves), modules)
    entering = GatedContexts(gates) if gates else ContextsBesideInputs()
    return order(config, DecoderParts(attend, contexts, cells, entering, first, modules))


def compose_attention(config: RecurrentConfig, modules: Modules) -> tuple[Attend, int]:
    """Attention over all sources, and the size of the context of annotations; its modules are added to `modules`."""
    covering = {name: build_coverage(config) for name in config.sources if config.coverage != "none"}
    coverages: dict[str, OptionalCoverage] = {
        name: SourceCoverage(name, covering[name]) if covering else NoCoverage(name) for name in config.sources
    }
    if covering:
        modules["coverages"] = nn.ModuleDict(covering)
    coverage_size = next((coverage.size for coverage in covering.values()), 0)
    attend: Attend
    if config.combination != "none":
        modules["combination"] = combination = build_combination(config, coverage_size)
        attend, read = SeveralSources(combination, coverages), combination.size
    else:
        ((source, coverage),) = coverages.items()
        modules["attention"] = attention = build_attention(config, config.annotation, config.energy_size, coverage_size)
        annotations = compose_memory_update(config, source, modules)
        attend, read = SingleSource(source, attention, annotations, coverage), config.annotation
    if config.word_attention:
        modules["word_attention"] = words = build_attention(config, config.embedding, config.word_energy_size)
        attend = WithWords(attend, config.first_text, words, may_be_absent=config.combination != "none")
    return attend, read


def compose_memory_update(config: RecurrentConfig, source: str, modules: Modules) -> OptionalMemoryUpdate:
    """The update of the annotations after a step."""
    if config.writing == "none":
        return FixedAnnotations(source)
    modules["writing"] = writing = MemoryUpdate(config.hidden, config.annotation)
    if config.writing == "shared":
        return UpdatedAnnotations(source, writing, None)
    modules["writing_attention"] = addressing = build_attention(config, config.annotation, config.energy_size)
    return UpdatedAnnotations(source, writing, addressing)


def compose_first_state(config: RecurrentConfig, leaves: int, modules: Modules) -> FirstState:
    """The first state of layers with this number of leaves."""
    if config.first_state == "zero":
        return ZeroState(config.hidden)
    if config.first_state == "sum":
        return SummedStates(config.hidden, leaves)
    maps = nn.ModuleList(nn.Linear(config.summaries_size, config.hidden) for _ in range(config.decoder_depth))
    modules["first"] = maps
    return ProjectedSummary(maps, len(config.sources))


def build_attention(config: RecurrentConfig, value: int, size: int, coverage_size: int = 0) -> Attention:
    """An attention of the recipe's kind over values of some size; `size` is the hidden size of an additive energy."""
    attention: Attention = ATTENTIONS[config.attention](config.hidden, value, size, coverage_size)
    return attention


def build_coverage(config: RecurrentConfig) -> Coverage:
    """The recipe's coverage."""
    if config.coverage == "linguistic":
        return LinguisticCoverage(config.annotation, config.fertility or 2.0)
    return NeuralCoverage(config.annotation, config.hidden, config.coverage_size or 10, config.gru or "cudnn")
