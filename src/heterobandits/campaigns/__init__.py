"""Campaigns: live problems with a history. An append-only log of events is the truth, and everything else is folded from it."""
