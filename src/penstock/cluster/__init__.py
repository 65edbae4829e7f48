"""Topics, partitions and brokers as everybody knows them."""
