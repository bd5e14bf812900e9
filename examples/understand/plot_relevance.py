"""
Which features matter? Length-scales and importances
====================================================

With ``ard=True`` every feature has a length-scale of its own. It is tempting to rank features by
it, but a short length-scale only says that the function may change quickly along a feature, and not
that it changes much. `RelevanceDisplay` therefore draws the permutation importance beside it.

Data: the diabetes data of scikit-learn, 442 patients (B. Efron, T. Hastie, I. Johnstone and R.
Tibshirani, 2004, Least angle regression, Annals of Statistics 32).
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from skgpmcmc import BayesianGPRegressor
from skgpmcmc.displays import RelevanceDisplay

X, y = load_diabetes(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=150, random_state=0)
scaler = StandardScaler().set_output(transform="pandas")  # keeps the names of the features
model = make_pipeline(scaler, BayesianGPRegressor(ard=True, random_state=0)).fit(X_train, y_train)
display = RelevanceDisplay.from_estimator(model, X_test, y_test)
display.figure_.suptitle("Features of the diabetes data")
plt.show()

# %%
# Left: where the posterior is as wide as the prior, the data say little about a length-scale.
# Right: shuffling a feature that predictions do not need changes the score by chance only.
