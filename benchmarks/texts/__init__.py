"""What benchmarks/text.py is made of: rows, modules, and a fit of one by dpmac or by Opacus."""
