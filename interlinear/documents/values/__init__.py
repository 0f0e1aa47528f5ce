"""Files of keys or columns with values: which of them are texts, and the files with translations in their places."""
