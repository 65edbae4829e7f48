"""The pure part of a client's connection: requests in, bytes out; bytes in, answers out."""
