"""What stands between the driver and its workers: news one way, the wish to stop the other."""


class Mailbox:
    """Lives in a process of its own. Letters are pickled at the sender: what they speak of is not needed here."""

    def __init__(self) -> None:
        self.letters: list[bytes] = []
        self.starts: dict[int, int] = {}
        self.signal = 0

    def start(self, rank: int) -> int:
        """A worker of this rank begins; returns how many did so far, this one included."""
        self.starts[rank] = self.starts.get(rank, 0) + 1
        return self.starts[rank]

    def post(self, letter: bytes) -> int:
        """Leave a letter; returns the signal that the driver has received, or 0."""
        self.letters.append(letter)
        return self.signal

    def collect(self, signal: int) -> list[bytes]:
        """Take all letters, and leave the signal that the driver has received."""
        self.signal = signal
        letters, self.letters = self.letters, []
        return letters
