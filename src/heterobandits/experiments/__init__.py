"""Experiments as data: the paper's domains."""
