"""The official FlashAttention-4 kernel as an outside oracle: compiled elsewhere, launched here.

What the ``official`` extra installs compiles it, in an environment of its own; no GPU is needed.
Nothing of it is part of this project, and what comes out stays in the user's cache.
"""
