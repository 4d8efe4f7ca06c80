"""What is true and what is believed: problems, the team of agents, how agents were calibrated, how places drift."""
