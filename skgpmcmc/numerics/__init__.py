"""Dense linear algebra, roots of covariances, quadrature and Hamiltonian dynamics."""
