"""Images as model inputs: decoding files to pixels."""
