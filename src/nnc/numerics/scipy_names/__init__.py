"""What `jax.scipy`, `scipy` and `torch.special` have: `from nnc.scipy.special import gammaln`, `nnc.scipy.stats.norm`.

They are written on operators, so gradients flow, and they compile and are mapped.
"""

from nnc.numerics.scipy_names import special as special
from nnc.numerics.scipy_names import stats as stats
