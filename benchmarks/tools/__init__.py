"""Programs that look into jscan: what calls lower to, memory checks, costs of a call."""
