"""Latent attention's states become heads' values in one launch, where rows are few.

`ops.latent_attention` has the public function and its definition in torch; these are kernels.
"""
