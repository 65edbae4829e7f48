"""Decisions of the pipelines, without Spark, files or clocks."""
