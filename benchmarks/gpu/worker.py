"""A process that measures the cases of one part, and appends a record to a file for everything that it has measured.

    python -m benchmarks.gpu.worker PART --device cuda --records FILE --seconds 120 [--first CASE] [--quick]

A record is a line of JSON: {"case": its number, and one of "begin", "row", "error", "end"}. The process ends
with DEVICE_LOST when an error has left the device unusable: then another process must measure the remaining cases.
"""

import argparse
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu import device, engine, search, training
from benchmarks.gpu.cases import Deadline, Part, Setting, describe, warnings_raised
from benchmarks.gpu.timing import prepare_profiler, release_memory, synchronize
from interlinear.devices import check_device

DEVICE_LOST = 3

# By name, in the order in which they run.
PARTS: dict[str, Part] = {part.name: part for part in (device.PART, training.PART, search.PART, engine.PART)}


class Records:
    """The file of records. Each is on disk before the next measurement begins."""

    def __init__(self, path: Path) -> None:
        self.path, self.case = path, -1

    def write(self, kind: str, value: Any = True) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps({"case": self.case, kind: value}) + "\n")


def measure(part: str, setting: Setting, records: Records, first: int, seconds: float) -> int:
    """Measure a part's cases from number `first` on; returns the process's exit status."""
    deadline, cases, parent = Deadline(seconds), PARTS[part].cases(setting), os.getppid()
    for number, case in list(enumerate(cases))[first:]:
        if deadline.passed:
            return 0
        share = case.weight / sum(each.weight for each in cases[number:])
        records.case = number
        records.write("begin", case.name)
        try:
            for row in case.rows(setting, Deadline(share * deadline.remaining)):
                if "error" in row:
                    records.write("error", row["error"])
                else:
                    records.write("row", row)
                if os.getppid() != parent:  # it was killed, and nobody waits
                    return 0
        except Exception as error:
            traceback.print_exc()
            records.write("error", describe(error))
            try:
                synchronize(setting.device)
            except Exception:
                return DEVICE_LOST
        records.write("end")
        release_memory(setting.device)
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--device", required=True)
    parser.add_argument("--records", type=Path, required=True)
    parser.add_argument("--seconds", type=float, required=True, help="after which no further case begins")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    records = Records(asked.records)
    check_device(asked.device)
    setting = Setting(torch.device(asked.device), asked.quick)
    prepare_profiler(setting.device)
    with warnings_raised():
        status = measure(asked.part, setting, records, asked.first, asked.seconds)
    sys.exit(status)


if __name__ == "__main__":
    main()
