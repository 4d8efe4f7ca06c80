"""`python -m heterobandits`."""

from heterobandits.cli import main

main()
