"""
Threads of posts: sparse texts
==============================

A thread is a bag of posts. One post about medicine makes the thread positive. A
vectorizer of scikit-learn, fitted inside the folds, turns posts into rows of word
weights, which stay sparse in every step. The texts are simulated from short lists of
words.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

import bagwise
from bagwise import Bags, Ragged
from bagwise.compose import OnInstances
from bagwise.inspection import instance_scores
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
# A list of strings is a bag. The first step of each pipeline learns the vocabulary from
# the training threads only. The three methods keep the rows sparse.
X = Bags.from_list(threads)
truth = Ragged(np.concatenate(truth), X.offsets)
train, test = np.arange(80), np.arange(80, 120)
print(X)
models = {
    "MI-SVM": MISVM(kernel="linear"),
    "MILR": MILogisticRegression(C=100, random_state=0),
    "Set kernel": BagSVC(kernel="set", kernel_params={"kernel": "linear"}),
}
models = {
    name: make_pipeline(OnInstances(TfidfVectorizer()), model)
    for name, model in models.items()
}
positive = test[y[test] == 1]
for name, model in models.items():
    model.fit(X[train], y[train])
    area = roc_auc_score(y[test], model.decision_function(X[test]))
    keys = instance_scores(model, X[positive])
    found = key_instance_success(truth[positive], keys)
    print(f"{name:12s} AUROC {area:.2f}, right post on top {found:.0%}")

# %%
# The words with the largest weights of the linear model.
words, svm = models["MI-SVM"].named_steps.values()
weights = svm.coef_.ravel()
best = np.argsort(weights)[-12:]
fig, ax = plt.subplots(figsize=(6, 3.5), layout="constrained")
ax.barh(words.get_feature_names_out()[best], weights[best], color="#c8553d")
ax.set(xlabel="weight in MI-SVM")
plt.show()

# %%
# From a table with one row per post, :func:`~bagwise.compare` and ``bagwise compare
# posts.csv --bag thread --label topic --text post`` encode the texts inside the folds.
table = pd.DataFrame(
    [
        (f"thread {i}", int(y[i]), text)
        for i, thread in enumerate(threads)
        for text in thread
    ],
    columns=["thread", "topic", "post"],
)
Z, labels = bagwise.from_frame(table, bag="thread", label="topic", text="post")
found = bagwise.compare(
    Z, labels, methods=["SimpleMI", "MI-SVM"], grid="none", progress=False
)
print(found)
