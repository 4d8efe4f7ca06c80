"""The HTTP API: routes, what they accept, what they answer."""
