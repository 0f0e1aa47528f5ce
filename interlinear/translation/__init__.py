"""Translation of texts, markup and documents: splitting, a pivot language, joining. For the service and the command."""
