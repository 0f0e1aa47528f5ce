"""TODO"""

from seq2seq.bundle.bundle import (
    README,
    Bundle,
    Limits,
    ModelCard,
    Task,
    add_scores,
    check_files,
    ensemble_bundle,
    fsync,
    hash_weights,
    initialize_from,
    load,
    read_card,
    read_readme,
    unique_weights,
    write_bundle,
)

__all__ = [
    "README",
    "Bundle",
    "Limits",
    "ModelCard",
    "Task",
    "add_scores",
    "check_files",
    "ensemble_bundle",
    "fsync",
    "hash_weights",
    "initialize_from",
    "load",
    "read_card",
    "read_readme",
    "unique_weights",
    "write_bundle",
]
