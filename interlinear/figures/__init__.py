"""Figures of attention, alignments, training and evaluation in the playground's style, as .png, .svg or .pdf files."""
