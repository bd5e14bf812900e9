"""Dense linear algebra, quadrature, and threads."""
