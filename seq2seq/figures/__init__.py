"""Pictures of what a model does, in the look of the playground: as .png, .svg or .pdf, by the file's suffix."""
