"""For training loops of PyTorch."""
