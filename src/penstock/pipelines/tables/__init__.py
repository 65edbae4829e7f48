"""Where archived records live: Parquet, Delta or Iceberg, each with a commit that counts once per (query, batch)."""
