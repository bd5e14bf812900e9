"""Descriptions of parameters and attributes that all estimators share.

A docstring asks for one of the texts below by its name, such as ``%(kernel)s``, on a line of its
own; `document` inserts it. What follows the name in that line replaces ``%(more)s`` in the text.
Parameters are in the order of `_parameters`. Facts that need more than a sentence or two are in the
pages that the texts name.

%(groups)s
The common parameters come first. Those of sampling begin with `n_chains`, and the advanced ones,
which few users need, with `sampler`.

%(kernel)s
kernel : sklearn.gaussian_process.kernels.Kernel, list of Kernel, "auto" or None, default=None
    Covariance function of the latent function f. None is
    ``ConstantKernel() * RBF()``%(more)s.
    Hyper-parameters with bounds ``"fixed"`` keep their values; priors replace other bounds.
    Features should have comparable scales: use a `StandardScaler`. Predictions of a list of kernels
    are an average over these; "auto" is a list of three. See :ref:`kernel-averages`.
ard : bool, default=False
    Give the default kernel one length-scale per feature. Cannot be combined with `kernel`.

%(priors)s
priors : mapping of str to frozen scipy.stats distribution, "sparse", "paper" or None, default=None
    Priors on the *natural* scale by hyper-parameter name or its end, such as
    ``"length_scale"``%(more)s.
    None, or a name left out, is a default that depends on the kernel class and X. "sparse" is for
    many features of which few matter, "paper" for comparisons with Filippone & Girolami (2014). See
    :doc:`/choosing_priors`.
weights : {"evidence", "stacking"}, default="evidence"
    Weights of a list of kernels: their posterior probabilities, or those with the best
    leave-one-out predictions.

%(run)s
random_state : int, RandomState instance or None, default=None
    Seed of all random numbers.
n_jobs : int or None, default=None
    Number of workers, as in joblib: -1 is one per core. Results do not depend on it.
verbose : int, default=0
    If positive, print progress, estimates of time and memory, and diagnostics.
n_chains : int, default=4
    Number of independent chains%(more)s.
n_draws : int, default=2000
    Maximum number of kept iterations per chain.
target_ess : float or None, default=400
    Sampling stops once every hyper-parameter has bulk and tail effective sample sizes of at least
    this number, and an R-hat of at most `max_rhat`. None makes `n_draws` iterations. See
    :doc:`/convergence`.
max_rhat : float, default=1.01
    Largest acceptable R-hat.
n_warmup : int or "auto", default="auto"
    Discarded iterations per chain, after the set-up. "auto" is 10 for the default sampler.
max_time : float or None, default=None
    Seconds after which sampling ends, with a warning. All draws so far are kept.
checkpoint : str, path-like or None, default=None
    File in which the fit saves its draws, and from which it continues after an interruption, with
    the same data and settings. See :doc:`/clusters`.
warm_start : bool, default=False
    Continue the chains of the last `fit`, with the same data and settings, until they have
    `n_draws` draws each or reach `target_ess`.

%(pm)s
sampler : {"pm", "marginal", "sa", "aa", "asis", "surr", "khr", "discretizing", "tempered"} or \
        Sampler, default="pm"
    "pm": pseudo-marginal MCMC, exact. "marginal": hyper-parameters theta from their approximate
    marginal posterior, not exact. "discretizing" and "tempered": exact, with proposals from a
    cheap posterior. The others update f and theta alternately: exact, but slow. Or an object from
    `skgpmcmc.samplers`. See :doc:`/samplers`.

%(advanced)s
approximation : {"auto", "ep", "laplace", "sod", "nystrom", "eigen"} or Approximation or \
        CheapApproximation, default="auto"
    Gaussian approximation of p(f | y, theta) for "pm", "marginal" and "khr": "auto" is "ep"
    ("laplace" for "khr"%(more)s). For "discretizing" and "tempered" it is the cheap posterior:
    "sod" (also "auto"), "nystrom" or "eigen". Or an object from `skgpmcmc.approximations`.
n_importance : int or "auto", default="auto"
    Importance draws in each estimate of the marginal likelihood. "auto" learns in the set-up how
    many each theta needs. Any number is exact, but few lead to many rejections.
covariance : {"exact", "inducing"}, default="exact"
    "inducing" is an approximation for many rows whose covariance matrix has nearly full rank
    (FITC): some inputs determine f at all others, up to independent residuals. The draws of f are
    then those of this part of f. Only with "pm", "marginal" and "ep". See :doc:`/how_to_large_n`.
n_inducing : int, default=500
    Number of inputs that determine f, with ``covariance="inducing"``; at most all.
max_predict_draws : int, "auto" or None, default="auto"
    Maximum number of posterior draws in predictions, which `fit` selects. "auto" is 16 to 400, for
    a Monte Carlo error of probabilities below 0.005; None is all. See :doc:`/predictions`.
predict_cache_bytes : int, default=512 MiB
    Memory for factors kept between predictions: about 8 n^2 bytes per posterior draw.

%(attributes)s
theta_samples_ : ndarray of shape (n_chains, n_draws, n_hyperparameters)
    Posterior draws of theta; natural logs of the hyper-parameters that are positive.
latent_samples_ : ndarray of shape (n_chains, n_draws, n_train)
    Posterior draws of f at the training rows%(more)s.
hyperparameter_names_ : list of str
    Names of the components of theta: first those of the kernel, then those of the likelihood.
kernel_ : Kernel
    The kernel at the posterior mean of theta.
priors_ : PriorTable
    Priors by name, on the natural scale; prints as a table that says where each comes from.
marked_samples_ : MarkedSamples
    Only with ``sampler="discretizing"``: theta after each move, and weights for averages.
diagnostics_ : Diagnostics
    R-hat, effective sample sizes, acceptance rates and cost; prints as a table.
n_iter_ : int
    Iterations per chain, warm-up included.
kernel_weights_ : ndarray of shape (n_kernels,)
    Only with a list of kernels: their weights, which add up to one; of shape (n_classes, n_kernels)
    if there is a model of each class against the rest. The attribute `estimators_` is then a list
    with a fitted estimator for each kernel, which have the attributes above.
n_features_in_ : int
    Number of features.
feature_names_in_ : ndarray of shape (`n_features_in_`,)
    Names of the features, if X has names that are strings.

%(warns)s
ConvergenceWarning
    If a hyper-parameter has not converged; the message names it and says what to do.
"""

from __future__ import annotations

import re
import textwrap
from typing import TypeVar

C = TypeVar("C", bound=type)


def document(cls: C) -> C:
    """Insert the shared texts into the docstring of a class."""
    _, *found = re.split(r"^%\((\w+)\)s\n", __doc__ or "", flags=re.MULTILINE)
    texts = dict(zip(found[::2], found[1::2], strict=True))

    def text(request: re.Match[str]) -> str:
        """Return the text that a line asks for, indented like the line."""
        indent, name, more = request.groups()
        return textwrap.indent(texts[name].strip().replace("%(more)s", more), indent)

    cls.__doc__ = re.sub(r"^( *)%\((\w+)\)s(.*)$", text, cls.__doc__ or "", flags=re.MULTILINE)
    return cls
