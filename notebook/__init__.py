"""For notebooks: a model to ask for its maps, and runs as objects. `import headscope as hs` has their names."""
