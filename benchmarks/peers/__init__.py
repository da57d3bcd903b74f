"""What `benchmarks/tables.py` is made of: real tables, their public encodings, the methods, the figures, the report."""
