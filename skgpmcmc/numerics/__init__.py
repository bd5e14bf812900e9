"""Dense linear algebra, quadrature, sums of logs, and threads."""
