"""The policies: what a policy is, and the catalogue, with one record for each. Read this first."""

from heterobandits.policies import catalogue  # noqa: F401 - whoever makes a policy knows the names that are taken
