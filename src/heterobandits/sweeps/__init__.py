"""Many points at once: problems, policies and horizons, kept shard by shard, on threads or a cluster."""
