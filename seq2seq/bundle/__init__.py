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
    "ModelCard",
    "Limits",
    "Task",
    "add_scores",
    "initialize_from",
    "check_files",
    "hash_weights",
    "ensemble_bundle",
    "load",
    "unique_weights",
    "read_card",
    "read_readme",
    "fsync",
    "write_bundle",
]
