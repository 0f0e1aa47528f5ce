"""Requests, their search and forced decoding, explanations, and terms of a glossary."""
