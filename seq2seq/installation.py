"""The installation: the distribution's name, and how an extra of it is installed."""

DISTRIBUTION = "interlinear-nmt"  # in a package's metadata; the command and the import are `interlinear`

# The distribution is on no package index, so its name there could be anybody's: `pip` gets a path.
INSTALL = "run pip install '.[{extra}]' in a clone of Interlinear, or pip install 'PATH/TO/WHEEL[{extra}]'"


def how_to_install(extra: str) -> str:
    """The remedy where an extra is missing."""
    return INSTALL.format(extra=extra)
