"""Pages over the campaigns, for people with a phone or a laptop; they work without JavaScript wherever that can be.

A link's token is exchanged for a cookie when it is opened. Forms post to pages of their own, which do what the service does.
"""
