"""How well are holes filled? Ours beside other imputers: same rows, same holes, same run."""
