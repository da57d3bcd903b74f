"""What `tables.py` and `whole_fits.py` are made of: data, public encodings, methods, figures, the report."""
