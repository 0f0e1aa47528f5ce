"""Lexical shortlists: the target tokens that search may write for a sentence, chosen by the tokens of its source."""

from interlinear.shortlist.link_counts import LinkCounts, build_shortlist
from interlinear.shortlist.shortlist import Coverage, Shortlist, coverage

__all__ = ["Coverage", "LinkCounts", "Shortlist", "build_shortlist", "coverage"]
