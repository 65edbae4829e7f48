"""The command line, one file per command. All but `serve` and `log` reach a node over the network."""
