"""Partitions and their replicas; the runner of every durable state machine."""
