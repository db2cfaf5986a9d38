"""Figures of clustered learning on drawn problems (BR-IFCA): trials without a federation."""
