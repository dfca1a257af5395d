"""The second half of attentions whose rows are cut: states of softmax, summed."""
