"""Files that people hand in and take away: CSV tables, templates of campaigns, the made-up demo."""
