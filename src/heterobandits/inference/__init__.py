"""What the two tables, pulls and successes, say: intervals, ranks, changes, agents' sensitivities, bounds and the exact optimum."""
