"""Tests and measurements on a GPU in one call: `python -m benchmarks.gpu --output FOLDER`."""
