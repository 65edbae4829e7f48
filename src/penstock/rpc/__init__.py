"""Kafka connections that a broker makes to others: one core without IO, and the shells around it."""
