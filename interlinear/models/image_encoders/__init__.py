"""Encoders of images: a network makes features of regions from pixels, and a projection makes annotations of them."""
