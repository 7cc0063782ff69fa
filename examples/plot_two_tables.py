"""
Transactions and customers: two tables with categories and dates
================================================================

A customer is a bag of transactions. The transactions have a date, a kind of shop and an
amount, and a second table has one row per customer. Columns that are not numbers are
encoded inside the training folds. The tables are simulated: fraud shows in one large
online payment at night, and is more frequent among young accounts.
"""

# %%
# The tables
# ----------
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import bagwise

rng = np.random.default_rng(0)
n_customers = 120
fraud = rng.random(n_customers) < 0.4
customers = pd.DataFrame(
    {
        "customer": [f"C{k:03d}" for k in range(n_customers)],
        "account_years": rng.gamma(np.where(fraud, 1.5, 4.0)).round(1),
        "region": rng.choice(["north", "south", "west"], n_customers),
        "fraud": np.where(fraud, "yes", "no"),
    }
)
rows = []
for name, bad in zip(customers["customer"], fraud, strict=True):
    size = rng.integers(5, 20)
    hours = rng.integers(0, 24, size)
    amounts = rng.gamma(2.0, 20.0, size)
    shops = rng.choice(["food", "clothes", "online", "fuel"], size)
    if bad:
        hours[0], shops[0] = rng.integers(1, 5), "online"
        amounts[0] += 80
    days = pd.Timestamp("2026-03-01") + pd.to_timedelta(rng.integers(0, 60, size), "D")
    times = days + pd.to_timedelta(hours, "h")
    for parts in zip(times.astype(str), shops, amounts.round(2), strict=True):
        rows.append((name, *parts))
payments = pd.DataFrame(rows, columns=["customer", "time", "shop", "amount"])
folder = Path(tempfile.mkdtemp())
payments.to_csv(folder / "payments.csv", index=False)
customers.to_csv(folder / "customers.csv", index=False)
print(payments.head(3), customers.head(3), sep="\n")

# %%
# Bags
# ----
X, y = bagwise.read_bags(
    folder / "payments.csv",
    bag="customer",
    label="fraud",
    pos_label="yes",
    bag_features=folder / "customers.csv",
    encode="auto",
)
print(X)
print(X.codings)

# %%
# With and without the second table
# ---------------------------------
alone, _ = bagwise.read_bags(
    folder / "payments.csv",
    bag="customer",
    label="fraud",
    pos_label="yes",
    bag_features=folder / "customers.csv",
    drop=["account_years", "region"],
    encode="auto",
)
methods = ["Mean + logistic", "SimpleMI", "MILR"]
fig, ax = plt.subplots(layout="constrained")
for k, (what, bags) in enumerate({"both tables": X, "payments only": alone}.items()):
    result = bagwise.compare(
        bags, y, methods=methods, metric="auroc", n_jobs=1, progress=False
    )
    found = result.ranking_frame.set_index("method").loc[methods]
    print(what, found["mean"].round(3).to_dict())
    ax.barh(np.arange(len(methods)) + 0.4 * k, found["mean"], 0.4, label=what)
ax.set_yticks(np.arange(len(methods)) + 0.2, methods)
ax.set(xlabel="AUROC, nested cross-validation", xlim=(0.5, 1.0))
ax.legend()
plt.show()
