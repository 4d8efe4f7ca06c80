"""What happened, for whoever doubts it: the history in words, the audit, verification, and how a damaged log is found."""
