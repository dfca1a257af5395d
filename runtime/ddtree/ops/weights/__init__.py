"""What kernels of several ops make of a logit."""
