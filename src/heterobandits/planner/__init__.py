"""One round at a time: who goes where and why, the rounds that were held, and the planner that keeps them."""
