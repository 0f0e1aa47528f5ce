"""Encoders, decoders and attention of recurrent models."""
