"""Data sets: description, resolved files, and the readers of their rows."""

from training.data.dataset.dataset import Dataset, data_root, dataset_names, open_dataset
from training.data.dataset.fields import ImageField, TextField
from training.data.dataset.image_index import IndexEntry, load_index, missing_line_error, read_index
from training.data.dataset.rows import (
    Row,
    check_required_images,
    line_count_error,
    read_lines,
    read_range,
    read_references,
    read_rows,
)

__all__ = [
    "Dataset",
    "ImageField",
    "IndexEntry",
    "Row",
    "TextField",
    "check_required_images",
    "data_root",
    "dataset_names",
    "line_count_error",
    "load_index",
    "missing_line_error",
    "open_dataset",
    "read_index",
    "read_lines",
    "read_range",
    "read_references",
    "read_rows",
]
