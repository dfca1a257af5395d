"""Where the tokens of a forward lie in a paged cache, and what each of them sees.

The kernel's half of `ops.tree_attention.plan_attention`, which has the definition in torch.
"""
