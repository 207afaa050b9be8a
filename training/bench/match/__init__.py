"""Which columns of two tables mean the same? The tables and how they are cut, the matchers, and the comparison."""
