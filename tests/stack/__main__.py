"""`python -m tests.stack up` and `down`: the services of docker-compose.yml on a machine without Docker."""

import sys

from seq2seq.errors import InterlinearError
from tests.stack.stack import Stack

if __name__ == "__main__":
    try:
        {"up": Stack().up, "down": Stack().down}[sys.argv[1]]()
    except InterlinearError as error:
        sys.exit(f"stack: {error}")
