"""The paper's tables: baselines, the runner that measures, the renderer that prints. Run from the checkout."""
