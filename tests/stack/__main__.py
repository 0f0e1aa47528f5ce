"""`python -m tests.stack up` and `down`: the services of docker-compose.yml on a machine without Docker."""

import sys

from interlinear.errors import InterlinearError
from tests.stack.stack import Stack

if __name__ == "__main__":
    try:
        match sys.argv[1:]:
            case ["up"]:
                Stack().up()
            case ["down"]:
                Stack().down()
            case _:
                sys.exit(__doc__)
    except InterlinearError as error:
        sys.exit(f"stack: {error}")
