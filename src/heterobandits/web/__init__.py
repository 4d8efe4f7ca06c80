"""Campaigns over HTTP: who may do what, what is asked, what is answered. The rules of a campaign are in `campaigns`."""

METRICS_FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"  # the folder where several processes count together, as prometheus_client calls it
