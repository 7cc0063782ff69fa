"""
Threads of posts: sparse texts
==============================

A thread is a bag of posts. One post about medicine makes the thread positive. Posts
become sparse rows of word weights, which stay sparse in every step. The texts are
simulated from short lists of words.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import roc_auc_score

from bagwise import Bags, Ragged
from bagwise.linear_model import MILogisticRegression
from bagwise.metrics import key_instance_success
from bagwise.svm import MISVM, BagSVC

TALK = "the a of for car engine price new old team game season road match week".split()
WORDS = "doctor pain dose fever patient drug symptom cure nurse".split()
rng = np.random.default_rng(1)


def post(medical):
    """Return twelve words, four of them about medicine if asked for."""
    words = list(rng.choice(TALK, 8 if medical else 12))
    return " ".join(words + list(rng.choice(WORDS, 4 if medical else 0)))


y = np.arange(120) % 2
threads, truth = [], []
for label in y:
    size = rng.integers(8, 20)
    medical = np.arange(size) == 0 if label else np.zeros(size, bool)
    threads.append([post(m) for m in medical])
    truth.append(medical)
print(threads[1][0])

# %%
# The vocabulary is learned from the training threads only.
train, test = np.arange(80), np.arange(80, 120)
words = TfidfVectorizer().fit([text for i in train for text in threads[i]])
sizes = [len(thread) for thread in threads]
X = Bags(
    words.transform([text for thread in threads for text in thread]),
    np.concatenate([[0], np.cumsum(sizes)]),
)
truth = Ragged(np.concatenate(truth), X.offsets)
print(X)

# %%
# Three methods that keep the rows sparse.
models = {
    "MI-SVM": MISVM(kernel="linear"),
    "MILR": MILogisticRegression(C=100, random_state=0),
    "Set kernel": BagSVC(kernel="set", kernel_params={"kernel": "linear"}),
}
positive = test[y[test] == 1]
for name, model in models.items():
    model.fit(X[train], y[train])
    area = roc_auc_score(y[test], model.decision_function(X[test]))
    keys = model.instance_scores(X[positive])
    found = key_instance_success(truth[positive], keys)
    print(f"{name:12s} AUROC {area:.2f}, right post on top {found:.0%}")

# %%
# The words with the largest weights of the linear model.
weights = models["MI-SVM"].coef_.ravel()
best = np.argsort(weights)[-12:]
fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.barh(words.get_feature_names_out()[best], weights[best], color="#c8553d")
ax.set(xlabel="weight in MI-SVM")
plt.show()
