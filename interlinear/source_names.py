"""Names of sources that mean something: a model's other sources may have any name."""

MT = "mt"  # the machine translation, in post-editing
CONTEXT = "context"  # what every sentence of a text is read with
