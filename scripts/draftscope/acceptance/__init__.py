"""Measures of acceptance of any log of rounds: with intervals, and two of them compared.

A log is a file of schema `rounds` (this program's own loops) or `imported_rounds` (an engine's).
"""
