"""Where events are kept: the repository over a store, its database and migrations, snapshots, and upkeep. SQL stands here alone."""
