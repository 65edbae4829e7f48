"""One file per API of the Kafka protocol."""
