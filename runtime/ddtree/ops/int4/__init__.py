"""INT4 numbers in registers: what kernels of packed matrices have in common."""
