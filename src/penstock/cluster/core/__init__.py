"""Pure decisions about the cluster."""
