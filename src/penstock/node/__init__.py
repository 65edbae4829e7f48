"""Assembly: the only place that constructs what lives as long as the node."""
