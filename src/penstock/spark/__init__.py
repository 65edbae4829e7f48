"""Spark reads and writes Penstock over the network: the data source, and the small blocking client under it."""
