"""Fine-tuning on GLUE, disabling heads, and what changes."""
