"""What needs no training: each analysis is a metric over streamed maps."""
