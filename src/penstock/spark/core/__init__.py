"""What the data source decides: plain values in, plain values out."""
