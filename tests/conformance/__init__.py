"""What the hardware does, as micro-kernels that run on both backends, and what an H200 answered."""
