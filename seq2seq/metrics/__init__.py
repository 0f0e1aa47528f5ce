"""How good an output is: scores with signatures, and whether a difference between systems is more than chance."""
