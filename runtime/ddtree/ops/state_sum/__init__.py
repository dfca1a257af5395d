"""The second half of `ops.tree_attention` where its rows are cut: states of softmax, summed."""
