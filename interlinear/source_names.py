"""Names of sources with a meaning: a model's other sources may have any name."""

MT = "mt"  # the machine translation, in post-editing
CONTEXT = "context"  # a text that every sentence is encoded with
