"""`heterobandits campaign`: its commands, their options, and what they print."""
