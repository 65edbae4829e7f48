"""The Kafka protocol's edge: connections, dispatch, one file per API."""
