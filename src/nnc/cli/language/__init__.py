"""Commands on language models in files of others."""
