"""Sampling with vLLM: in the training process, and from servers."""
