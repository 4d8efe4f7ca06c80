"""Long work in pieces that survive a kill: what a piece is, where its result is kept, and what plays it."""
