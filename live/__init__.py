"""The atlas with its models behind it: `headscope serve RUN` answers what a reader types."""
