"""The simulated kernels. ``fa4`` is FlashAttention-4's forward pass on Blackwell."""
