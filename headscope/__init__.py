"""headscope: find out what the attention heads of a transformer do."""
