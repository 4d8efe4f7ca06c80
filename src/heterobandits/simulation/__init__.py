"""Many trials: the engine, `simulate`, what came of it, and how often guarantees fail."""
