"""Lexicon, inflection and a German-English grammar that generates aligned sentence pairs."""
