"""CUDA: implementations for NVIDIA GPUs as text, its compiler, and a twin of it on the CPU."""
