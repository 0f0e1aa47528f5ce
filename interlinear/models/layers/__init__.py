"""Layers of any kind of model: dropout, packed and int8 linear layers."""
