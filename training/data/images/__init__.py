"""Images of a data set: archives and indexes, region features, and their storage in prepared data."""
