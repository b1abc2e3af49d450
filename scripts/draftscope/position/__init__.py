"""The position study: does speculative acceptance decay with position in the text?"""
