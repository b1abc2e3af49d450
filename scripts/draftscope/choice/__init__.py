"""Which draft, which draft length: predicted speed by domain and mode, with intervals."""
