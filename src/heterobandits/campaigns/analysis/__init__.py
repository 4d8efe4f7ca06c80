"""What can be said of a campaign: answers about its arms, prices of constraints, the rest of the season, another policy."""
