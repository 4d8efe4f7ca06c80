"""Campaigns over HTTP: who may do what, what is asked, what is answered. The rules of a campaign are in `campaigns`."""
