"""Studies of many points: what a file asks for, how many trials are enough, the tables that come out."""
