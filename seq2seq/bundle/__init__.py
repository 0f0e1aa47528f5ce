"""TODO"""

from seq2seq.bundle.bundle import (
    README,
    Bundle,
    Card,
    Limits,
    Task,
    add_scores,
    begin_from,
    check_files,
    hash_weights,
    join,
    load,
    own_weights,
    read_card,
    read_readme,
    sync,
    write_bundle,
)

__all__ = [
    "README",
    "Bundle",
    "Card",
    "Limits",
    "Task",
    "add_scores",
    "begin_from",
    "check_files",
    "hash_weights",
    "join",
    "load",
    "own_weights",
    "read_card",
    "read_readme",
    "sync",
    "write_bundle",
]
