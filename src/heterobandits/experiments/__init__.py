"""Experiments as data: the paper's domains, what was published, what is claimed, and the report.

Read `catalogue` and `claims` first; `reproduce` puts everything together.
"""
