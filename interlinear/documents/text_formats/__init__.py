"""Formats that are text: plain text, HTML, Markdown, subtitles, JSON, gettext."""
