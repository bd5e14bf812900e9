"""Descriptions of parameters and attributes that all estimators have, written once: below.

A docstring asks for them by the names that stand over them, ``%(kernel)s`` on a line of its own;
`documented` fills them in. What follows that name in its line is filled in where they say ``more``.

%(kernel)s
kernel : sklearn.gaussian_process.kernels.Kernel or None, default=None
    Covariance of the latent function; None is ``ConstantKernel() * RBF()``. Hyper-parameters
    with bounds ``"fixed"`` keep their value, the others are sampled. Numerical bounds are
    ignored: the priors say which values are plausible. Features should have comparable scales:
    put a `StandardScaler` in front.
ard : bool, default=False
    Give the default kernel one length-scale per feature. An error with an explicit kernel.

%(priors)s
priors : mapping of str to frozen scipy.stats distribution, "paper" or None, default=None
    Priors on the *natural* scale by hyper-parameter name, such as ``"k2__length_scale"``%(more)s.
    Names left out get the defaults, which are log-normal: a standard deviation of the function has
    median 2, one of noise 0.3 (of the targets'), and a length-scale lies between half the distance
    of neighbors among the training rows and three times their width; see
    `skgpmcmc.model.default_prior`. "paper": those of Filippone & Girolami (2014).

%(pm)s
sampler : {"pm", "marginal", "sa", "aa", "asis", "surr", "khr", "discretizing", "tempered"} or \
        Sampler, default="pm"
    "pm": pseudo-marginal, exact. "marginal": theta from the approximate marginal posterior
    and predictions by the approximation's Gaussian, the papers' "MCMC EP". "discretizing" and
    "tempered": exact too; theta moves along a cheap approximation of its posterior. The others
    update f and theta alternately: exact and slow, for comparisons. Or a configured object from
    `skgpmcmc.samplers`.

%(approximation)s
approximation : {"auto", "ep", "laplace", "sod", "nystrom", "eigen"} or Approximation or \
        CheapApproximation, default="auto"
    Gaussian approximation of p(f | y, theta): the importance distribution of "pm", the target
    of "marginal". Or a configured object from `skgpmcmc.approximations`. In use by "pm",
    "marginal" and "khr" (where "auto" is "laplace"); on the others a name has no effect, and an
    object is refused. "auto" is "ep"%(more)s.
    For "discretizing" and "tempered" it is the cheap approximate posterior of theta: "sod"
    (and "auto"): given some of the rows; "nystrom", "eigen": under a prior of low rank. Its size,
    where it is not given, is chosen by short runs in warm-up. Estimates of p(y | theta) then use
    EP, or what a configured object has as ``inner``.
n_importance : int or "auto", default="auto"
    Importance draws per marginal-likelihood estimate. "auto" is a function of theta, learned in
    the set-up, for which the estimate has the same small noise everywhere; for random walks it
    is 64. Any number is exact; with few draws chains reject most proposals. In use by "pm",
    and by "discretizing" and "tempered" unless the likelihood is Gaussian; without effect on the
    others.

%(schedule)s
n_chains : int, default=4
    Independent chains, from overdispersed starts%(more)s.
n_warmup : int or "auto", default="auto"
    Discarded iterations per chain, after the set-up in which the sampler learns. "auto" leaves
    the number to the sampler: 5 to 50 for the default one, 500 for a random walk, which is tuned
    in them, and 100 for "discretizing" and "tempered".
n_draws : int, default=2000
    Most kept iterations per chain; exactly so many with ``target_ess=None``.
max_predict_draws : int, "auto" or None, default="auto"
    At most so many posterior draws, spread over the posterior of theta and fixed in `fit`,
    enter a prediction; None uses all, as do fits with all hyper-parameters fixed. "auto" takes
    as many, from 16 to 400, as keep the Monte Carlo error of a predictive probability below
    0.005, root mean square over rows, and that of other predictions below a twentieth of the
    posterior standard deviation of f. A change after `fit` takes effect in the next `fit`, and
    predictions warn of it.
predict_cache_bytes : int, default=512 MiB
    Most memory for factors that predictions keep from one call to the next, so that a few rows
    cost milliseconds; about 8 n^2 bytes for each posterior draw. It changes no result. Copies
    and files of the estimator hold none of them.
target_ess : float or None, default=400
    Stop as soon as every hyper-parameter has effective sample sizes, in bulk and tail, of at
    least this and of at least 100, and an R-hat of at most `max_rhat`, looked at every 10 to 50
    iterations; None makes `n_draws`. With all hyper-parameters fixed, log p(y | f) and some
    latent values are looked at instead. With one-vs-rest, each binary problem stops separately.
max_rhat : float, default=1.01
    A `ConvergenceWarning` names the hyper-parameters whose R-hat is larger, or whose
    effective sample size, in bulk or tail, is below 100 or `target_ess`, and says how bad that
    is.
checkpoint : str, path-like or None, default=None
    File to which everything that workers return is written, after every round. A `fit` on the same
    data and with the same settings goes on from it, to the draws that one fit would have made
    without interruption; a larger `n_draws` or `target_ess`, or a smaller `max_rhat`, continues a
    fit that was complete. Other data or settings are refused, and so is a damaged file; `n_jobs`,
    `verbose`, `max_time` and what concerns predictions may change. Every fit needs a file of its
    own. With a file, `warm_start` has no effect. ``python -m skgpmcmc doctor FILE`` looks at one.
max_time : float or None, default=None
    Seconds after which sampling ends, between two rounds and with a warning; all draws are kept.
    There is at least one round of draws.
random_state : int, RandomState instance or None, default=None
    Seed of all chains; the draws do not depend on `n_jobs`.
n_jobs : int or None, default=None
    Not 0. Workers for chains, those of all classes together, and for predictions. Every worker
    uses one BLAS thread.
verbose : int, default=0
    Positive: print about how long `fit` will take and how much memory it needs; after every 50
    draws the worst R-hat and effective sample size and the time left; and the convergence table
    after it.
warm_start : bool, default=False
    Continue the chains of the last `fit`, on the same data and with the same settings, until
    they have `n_draws` kept draws each or `target_ess` is reached. The draws are those that one
    longer fit would have made.

%(attributes)s
theta_samples_ : ndarray of shape (n_chains, n_draws, n_hyperparameters)
    Draws of the hyper-parameters, in the order of `hyperparameter_names_`: natural logs of
    those that are positive.
latent_samples_ : ndarray of shape (n_chains, n_draws, n_train)
    Draws of the latent function at the training inputs (rows of weight zero left out).
hyperparameter_names_ : list of str
    Names of the components of theta: those of ``kernel_.theta``, then of the likelihood.
kernel_ : Kernel
    The kernel at the posterior mean of theta.
priors_ : dict
    Prior of each sampled hyper-parameter, natural scale.
marked_samples_ : MarkedSamples
    With ``sampler="discretizing"`` only: ``theta`` of shape (n_chains, n_draws, n_marked,
    n_hyperparameters), all places of the mark in each iteration, and their ``weights`` of shape
    (n_chains, n_draws, n_marked). They are ``n_moves``, with slices for each hyper-parameter.
    Averages over them are averages over the posterior too.
diagnostics_ : Diagnostics
    R-hat, effective sample sizes, acceptance and cost; prints as a table.
n_iter_ : int
    Iterations per chain, warm-up included.
n_features_in_ : int
    Number of features.
feature_names_in_ : ndarray of shape (`n_features_in_`,)
    Names of the features, where X has them.
"""

from __future__ import annotations

import re
import textwrap
from typing import TypeVar

C = TypeVar("C", bound=type)


def documented(cls: C) -> C:
    """Fill in what the docstring of a class asks for."""
    _, *found = re.split(r"^%\((\w+)\)s\n", __doc__ or "", flags=re.MULTILINE)
    texts = dict(zip(found[::2], found[1::2], strict=True))

    def text(request: re.Match[str]) -> str:
        indent, name, more = request.groups()
        return textwrap.indent(texts[name].strip().replace("%(more)s", more), indent)

    cls.__doc__ = re.sub(r"^( *)%\((\w+)\)s(.*)$", text, cls.__doc__ or "", flags=re.MULTILINE)
    return cls
