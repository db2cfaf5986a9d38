"""Task groups: parties of different data distributions, and a model for each group of them (BR-IFCA)."""
