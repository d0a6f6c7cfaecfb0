"""The records that a training run keeps: metrics, log, terminal output, checkpoints and the final report."""
