"""Descriptions of parameters and attributes that all estimators share.

A docstring asks for one of the texts below by its name, such as ``%(kernel)s``, on a line of its
own; `document` inserts it. What follows the name in that line replaces ``%(more)s`` in the text.

%(kernel)s
kernel : sklearn.gaussian_process.kernels.Kernel or None, default=None
    Covariance function (kernel) of the latent function; None is ``ConstantKernel() * RBF()``.
    Hyper-parameters with bounds ``"fixed"`` keep their values, all others are sampled.
    Numerical bounds are ignored: the priors determine which values are plausible. Features should
    have comparable scales; standardize them with a `StandardScaler` first.
ard : bool, default=False
    Give the default kernel one length-scale per feature. An error with an explicit kernel.

%(priors)s
priors : mapping of str to frozen scipy.stats distribution, "sparse", "paper" or None, default=None
    Priors by hyper-parameter name, such as ``"k2__length_scale"``%(more)s. Each is the distribution
    of the value itself (*natural* scale), not of its logarithm. Hyper-parameters that are not named
    get a default prior, which depends on the kernel class that owns them, and is log-normal: the
    standard deviation of the latent function has median 2; that of the noise has median 0.3, in
    units of the standard deviation of the targets; with probability 0.98, a length-scale lies
    between half the distance of neighboring training rows and three times the width of the training
    inputs. See `skgpmcmc.model.default_priors`.
    "sparse", for ``ard=True`` and kernels of your own with a length-scale per feature, is for many
    features of which few matter (Eriksson & Jankowiak, 2021): the squares of width / length-scale
    are half-Cauchy(tau) for every feature, in units of the feature's width, and tau, which they
    share, is half-Cauchy(0.1). tau is sampled too, as the last hyper-parameter, ``"shrinkage"``;
    all others keep their default priors. In a mapping, the value "sparse" for such a length-scale
    does the same. "paper" selects the priors of Filippone & Girolami (2014).

%(pm)s
sampler : {"pm", "marginal", "sa", "aa", "asis", "surr", "khr", "discretizing", "tempered"} or \
        Sampler, default="pm"
    "pm": pseudo-marginal MCMC, exact. "marginal": samples theta from the approximate marginal
    posterior and predicts with the Gaussian approximation (the papers' "MCMC EP"); not exact.
    "discretizing" and "tempered": exact; proposals of theta come from a cheap approximation of its
    posterior. The others update f and theta alternately; they are exact but slow, and meant for
    comparisons. Or a configured object from `skgpmcmc.samplers`.

%(approximation)s
approximation : {"auto", "ep", "laplace", "sod", "nystrom", "eigen"} or Approximation or \
        CheapApproximation, default="auto"
    Gaussian approximation of p(f | y, theta). For "pm" it is the importance distribution, for
    "marginal" it defines the target distribution; "khr" uses it too (its "auto" is "laplace").
    With the other samplers a name has no effect, and an object is an error. "auto" is "ep"%(more)s.
    For "discretizing" and "tempered" it selects the cheap approximate posterior of theta: "sod"
    (the same as "auto") uses a subset of the rows, "nystrom" and "eigen" use a prior of low rank.
    Unless you give its size, short pilot runs in the warm-up choose it. The estimates of
    p(y | theta) then use EP, or the approximation that a configured object names as ``inner``.
    Or a configured object from `skgpmcmc.approximations`.
n_importance : int or "auto", default="auto"
    Number of importance draws in each estimate of the marginal likelihood. With "auto" it is a
    function of theta, learned in the set-up, for which the estimate has the same small noise
    everywhere; for random walks it is 64. The sampler is exact for any number, but with few draws
    it rejects most proposals. Used by "pm", and by "discretizing" and "tempered" unless the
    likelihood is Gaussian; without effect on the other samplers.

%(schedule)s
n_chains : int, default=4
    Number of independent chains, with overdispersed starting points%(more)s.
n_warmup : int or "auto", default="auto"
    Discarded iterations per chain, after the set-up in which the sampler learns its proposals.
    "auto" leaves the number to the sampler: 10 for those that learn in a set-up, "pm", "marginal"
    and "collapsed"; 500 for random walks and for samplers that update f and theta alternately,
    which are tuned in these iterations; 100 for "discretizing" and "tempered".
n_draws : int, default=2000
    Maximum number of kept iterations per chain; with ``target_ess=None`` exactly this number.
max_predict_draws : int, "auto" or None, default="auto"
    Maximum number of posterior draws that a prediction averages over. `fit` chooses them, spread
    over the posterior of theta. None uses all draws, and so do fits whose hyper-parameters are all
    fixed. "auto" takes as many as needed, from 16 to 400, to keep the Monte Carlo error (root mean
    square over rows) of predictive probabilities below 0.005, and that of other predictions below
    a twentieth of the posterior standard deviation of f (a fiftieth where f is integrated out). A
    change after `fit` only takes effect in the next `fit`; until then predictions warn.
predict_cache_bytes : int, default=512 MiB
    Maximum memory for matrix factors that are kept between predictions, so that predicting a few
    rows takes milliseconds; a posterior draw needs about 8 n^2 bytes. It does not change any
    result. Copies and saved files of the estimator do not contain these factors.
target_ess : float or None, default=400
    Sampling stops as soon as every hyper-parameter has bulk and tail effective sample sizes of at
    least this number (and at least 100) and an R-hat of at most `max_rhat`. This is checked every
    10 to 50 iterations. None makes `n_draws` iterations. If all hyper-parameters are fixed,
    log p(y | f) and some latent values are checked instead. With one-vs-rest, each binary problem
    stops separately.
max_rhat : float, default=1.01
    Largest acceptable R-hat. A `ConvergenceWarning` names the hyper-parameters whose R-hat is
    larger, or whose bulk or tail effective sample size is below 100 or `target_ess`, and says how
    serious this is.
checkpoint : str, path-like or None, default=None
    File in which the fit saves its results so far, after every round of iterations. If it exists,
    `fit` continues from it, on the same data and with the same settings, and makes the same draws
    as an uninterrupted fit. A larger `n_draws` or `target_ess`, or a smaller `max_rhat`, continues
    a completed fit. Other data or settings, or a damaged file, are an error; only `n_jobs`,
    `verbose`, `max_time` and the parameters of predictions may change. Each fit needs its own file.
    With a file, `warm_start` has no effect. ``python -m skgpmcmc doctor FILE`` examines a file.
max_time : float or None, default=None
    Time limit in seconds. Sampling then ends after the current round of iterations, with a warning,
    and keeps all draws. A set-up that is not complete by then ends too, and one round of draws is
    made with what is known: exact draws, but of chains that move less well. A limit that is too
    short for a single evaluation of the likelihood is a RuntimeError.
random_state : int, RandomState instance or None, default=None
    Seed of all chains; the draws do not depend on `n_jobs`.
n_jobs : int or None, default=None
    Number of workers, as in joblib: None is one, -1 is one per core; 0 is an error. Workers share
    the chains of all classes, and the work of predictions. Each worker uses one BLAS thread.
verbose : int, default=0
    If positive, print: estimates of the duration and the memory of the fit; what the set-up does,
    and for how many seconds it has been at work; after every 50 draws the worst R-hat and
    effective sample size, and the remaining time; at the end the table of convergence diagnostics.
warm_start : bool, default=False
    Continue the chains of the last `fit`, on the same data and with the same settings, until they
    have `n_draws` kept draws each or `target_ess` is reached. The draws are the same as those of
    one longer fit.

%(attributes)s
theta_samples_ : ndarray of shape (n_chains, n_draws, n_hyperparameters)
    Posterior draws of the hyper-parameters, in the order of `hyperparameter_names_`. Those that are
    positive are given as natural logs.
latent_samples_ : ndarray of shape (n_chains, n_draws, n_train)
    Posterior draws of the latent function at the training inputs, without rows of weight zero.
hyperparameter_names_ : list of str
    Names of the components of theta: those of ``kernel_.theta``, then those of the likelihood, and
    last "shrinkage", with ``priors="sparse"`` only.
kernel_ : Kernel
    The kernel at the posterior mean of theta.
priors_ : PriorTable
    Mapping to the prior of each sampled hyper-parameter, on the natural scale; prints as a
    table, which says where each comes from. Of sparse length-scales it has the marginal priors, by
    the names in `hyperparameter_names_`.
marked_samples_ : MarkedSamples
    Only with ``sampler="discretizing"``: the values of theta after each move of the sampler,
    ``theta`` of shape (n_chains, n_draws, n_marked, n_hyperparameters), and their ``weights``
    of shape (n_chains, n_draws, n_marked). ``n_marked`` is the sampler's ``n_moves``, or with slice
    moves (the default) ``n_moves`` times the number of hyper-parameters. Weighted averages over
    these values estimate posterior means too.
diagnostics_ : Diagnostics
    R-hat, effective sample sizes, acceptance rates and cost; prints as a table.
n_iter_ : int
    Iterations per chain, warm-up included.
n_features_in_ : int
    Number of features.
feature_names_in_ : ndarray of shape (`n_features_in_`,)
    Names of the features; only if X has feature names that are strings.
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
