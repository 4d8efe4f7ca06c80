"""The report of a sweep: its points in cells, as figures, as a page and in sentences."""
