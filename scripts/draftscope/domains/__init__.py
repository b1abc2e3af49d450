"""The domains study: token trees over several kinds of text, as published and corrected."""
