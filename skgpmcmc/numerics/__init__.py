"""Dense linear algebra, roots of covariances, quadrature, and threads."""
