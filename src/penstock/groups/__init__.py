"""Consumer groups: classic and KIP-848 membership, and committed offsets."""
