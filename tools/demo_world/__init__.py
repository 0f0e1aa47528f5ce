"""The grammar that wrote the demo data sets of corpora/: German and English sentences, headlines, scenes, post-edits.

    python -m tools.demo_world [FOLDER]    # writes FOLDER/demo/*.gz and the others; FOLDER: corpora

The text depends on the seed only, on any machine and in any version of Python.
"""
