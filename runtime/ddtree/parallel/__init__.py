"""Several ranks that run one model together: who they are, and how they speak to each other."""
