"""Files of keys or columns with values: finds the values that are texts, and replaces them by translations."""
