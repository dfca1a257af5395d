"""What heads make of latent attention: its result in the latents' space, and then their values.

`ops.latent_attention` has the public function and its definition in torch; these are kernels.
"""
