"""The steps of `interlinear demo`: one run of the whole workflow, from a corpus to a served translation."""
