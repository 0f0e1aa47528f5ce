"""`interlinear round-trip`: writes a data set of artificial post-edits beside real ones, for automatic post-editing."""

from interlinear.cli.synthetic_data.synthetic_options import RoundTripOptions


def round_trip(options: RoundTripOptions) -> None:
    """Make artificial post-edits from text in the target language, by translating it to the source language and back.

    Those that are edited as much as real post-edits are written beside them, for `train`; dev and test are the real
    ones. Prints the path of the new data set's description. An interrupted command continues when it is called again.
    See docs/post-editing.md.
    """
    from interlinear.cli.synthetic_data.round_trip import make_round_trip

    print(make_round_trip(options))
