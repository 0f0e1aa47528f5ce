"""Markdown, with anchors, admonitions and the tags of templates."""
