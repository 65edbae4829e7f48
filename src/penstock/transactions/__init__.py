"""Transactions: the coordinator's durable machine, and what it has done elsewhere."""
