"""Jobs that count part by part: what is loaded, what fits, what is folded."""
