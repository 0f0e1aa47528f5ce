"""Model bundles: a folder with a model's weights, tokenizers and model card; reading, writing and checking it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interlinear.bundle.bundle import (
        README,
        Bundle,
        add_shortlist,
        check_files,
        ensemble_bundle,
        hash_weights,
        initialize_from,
        load,
        read_card,
        read_readme,
        unique_weights,
        with_compiled_search,
        write_bundle,
    )
    from interlinear.bundle.model_card import Limits, ModelCard

__all__ = [
    "README",
    "Bundle",
    "Limits",
    "ModelCard",
    "add_shortlist",
    "check_files",
    "ensemble_bundle",
    "hash_weights",
    "initialize_from",
    "load",
    "read_card",
    "read_readme",
    "unique_weights",
    "with_compiled_search",
    "write_bundle",
]


def __getattr__(name: str) -> Any:
    """Import an exported name on first use, so that a command that only lists registered models does not load torch."""
    if name not in __all__:
        raise AttributeError(f"module 'interlinear.bundle' has no attribute '{name}'")
    from interlinear.bundle import bundle, model_card

    return getattr(model_card if hasattr(model_card, name) else bundle, name)
