"""Modules: networks whose attributes are layers and parameters, and their training outside of a model."""
