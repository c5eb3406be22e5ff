"""PyTorch: a DataLoader in place of PyTorch's own, with the same arguments, faster by itself, and exact to resume.

from penstock.torch import DataLoader  # instead of torch.utils.data

loader = DataLoader(dataset, batch_size=64, shuffle=True)
state = loader.state_dict()
"""

from penstock.core.errors import PlanError
from penstock.core.installing import pip_install

try:
    from penstock.torch.dataloader import DataLoader as DataLoader
except ImportError as missing:
    raise PlanError(f"penstock.torch: PyTorch cannot be imported ({missing}); {pip_install('torch')}") from missing

__all__ = ["DataLoader"]
