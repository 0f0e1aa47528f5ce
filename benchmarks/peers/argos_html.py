"""Translates HTML as Argos Translate does, in its own environment, with a translation from outside.

Reads documents from standard input, each a JSON string on a line. Writes {"translate": TEXT} for each text that it
wants translated, and reads the translation, a JSON string; at a document's end it writes {"document": HTML}.
"""

import json
import sys

from translatehtml import translate_html


class OutsideTranslation:
    """The translation that `translate_html` calls."""

    def translate(self, text: str) -> str:
        print(json.dumps({"translate": text}), flush=True)
        return str(json.loads(sys.stdin.readline()))


def main() -> None:
    while line := sys.stdin.readline():
        translated = translate_html(OutsideTranslation(), json.loads(line))
        print(json.dumps({"document": str(translated)}), flush=True)


if __name__ == "__main__":
    main()
