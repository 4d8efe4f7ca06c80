"""How results are drawn and written: plots, files, and pages with their templates."""
