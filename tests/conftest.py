"""Fixtures that several test files share."""

import os
import shutil
from pathlib import Path

import hypothesis
import matplotlib
import numpy as np
import pytest
import scipy.sparse as sp

matplotlib.use("Agg")

# Milliseconds: a busy computer is slow, which is no fault of the page.
PATIENCE = 300_000

# The same examples every time; `HYPOTHESIS_PROFILE=explore` looks for new ones.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None)
hypothesis.settings.register_profile("explore", max_examples=1000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture(scope="session")
def benchmark():
    """Load a real benchmark set, or skip where its file is not at hand."""
    from bagwise.datasets import fetch

    folder = os.environ.get("BAGWISE_DATA")

    def load(name):
        if not folder or not (Path(folder) / f"{name}.npz").exists():
            pytest.skip(f"{name}.npz is not in the folder named by BAGWISE_DATA")
        return fetch(name)

    return load


@pytest.fixture(scope="session")
def chromium():
    """Return a function that opens a window of a real browser, or skip without one."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no chromium on this machine")
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found,
            args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
            timeout=PATIENCE,
        )

        def window(**options):
            context = browser.new_context(**options)
            context.set_default_timeout(PATIENCE)
            return context

        yield window
        browser.close()


@pytest.fixture(scope="session")
def clarabel_rows():
    """Return a function that solves a hinge problem as a generic conic program."""
    clarabel = pytest.importorskip("clarabel")

    def solve(A, c, margin, cap, group=None, *, balls=None, bias_scale=None):
        """Minimize 1/2|w|^2 + bias + sum_g cap_g xi_g with A w + c b + xi_g >= m.

        `bias_scale`: None for a free bias, 0 for none, else b**2 / (2 bias_scale).
        Balls: a|w|^2 - 2 G w + q <= 0. Returns (objective, w, b).
        """
        A = np.asarray(A, dtype=float)
        n, r = A.shape
        group = np.arange(n) if group is None else np.asarray(group)
        cap = np.broadcast_to(cap, (group.max() + 1,)).astype(float)
        margin = np.broadcast_to(margin, (n,)).astype(float)
        n_groups, n_var = len(cap), r + 1 + len(cap)
        weight = 0.0 if not bias_scale else 1.0 / bias_scale
        P = sp.diags_array(np.r_[np.ones(r), weight, np.zeros(n_groups)]).tocsc()
        spread = sp.csr_array((np.ones(n), (np.arange(n), group)), shape=(n, n_groups))
        column = np.asarray(c, dtype=float)[:, None]
        if bias_scale == 0:
            column = np.zeros_like(column)
        lower = sp.hstack([sp.csr_array(A), sp.csr_array(column), spread])
        positive = sp.hstack([sp.csr_array((n_groups, r + 1)), sp.eye_array(n_groups)])
        blocks = [-lower, -positive]
        right = [-margin, np.zeros(n_groups)]
        cones = [clarabel.NonnegativeConeT(n + n_groups)]
        for a, g, q in zip(*balls, strict=True) if balls is not None else ():
            # |w - g/a| <= R as a second-order cone.
            radius = np.sqrt(g @ g / a**2 - q / a)
            block = sp.lil_array((r + 1, n_var))
            block[1:, :r] = -np.eye(r)
            blocks.append(block.tocsr())
            right.append(np.r_[radius, -g / a])
            cones.append(clarabel.SecondOrderConeT(r + 1))
        if bias_scale == 0:  # Fix the unused bias, or it would be undetermined.
            block = sp.lil_array((1, n_var))
            block[0, r] = 1.0
            blocks.append(block.tocsr())
            right.append(np.zeros(1))
            cones.append(clarabel.ZeroConeT(1))
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
        cost = np.r_[np.zeros(r + 1), cap]
        found = clarabel.DefaultSolver(
            P, cost, sp.vstack(blocks).tocsc(), np.concatenate(right), cones, settings
        ).solve()
        assert "Solved" in str(found.status)
        x = np.asarray(found.x)
        return found.obj_val, x[:r], x[r]

    return solve


@pytest.fixture
def rng():
    """Seeded generator."""
    return np.random.default_rng(0)


@pytest.fixture
def two_workers():
    """Two processes of a cluster; one that dies is started again."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=True,
        dashboard_address=":0",
        silence_logs=50,
    ) as cluster:
        yield cluster
