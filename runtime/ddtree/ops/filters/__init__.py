"""The second half of `ops.sample` where rows ask for min_p, top_k or top_p."""
