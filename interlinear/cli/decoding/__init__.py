"""Loading models and decoding: search options, input images, and the display of aligned output."""
