"""Ten thousand odd inputs: each must succeed or be refused in our own words, and a refusal leaves nothing behind.

``make fuzz``, or ``python -m fuzz --cases 10000``. A case is its number: surface, valid start, mutations and all follow
from (seed, number), so that ``python -m fuzz --case 4711`` makes it again.
"""
