"""What kind of text each token stands in: reflection, numbers, operators, LaTeX, code and so on."""
