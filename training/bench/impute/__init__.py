"""How well are holes filled? The tables, the imputers, and the comparison."""
