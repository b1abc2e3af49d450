"""What serving engines say of the rounds of their requests, brought into one form.

Each format is a module with `requests`, which turns the objects of a file into `Request`s. What a
format does not say stays missing: a histogram has no order, a counter has no rounds.
"""
