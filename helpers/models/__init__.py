"""What the hardware does, as small NumPy models. A model counts; it never measures."""
