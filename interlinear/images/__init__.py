"""Images as model inputs: decoding files to pixels, and convolutional networks from pixels to region features."""
