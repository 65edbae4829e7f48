"""Typed settings: declared once; file, environment, flags, DescribeConfigs and the reference page come from it."""
