"""Networks for bags with labels."""

import numpy as np
from scipy.special import expit, log_softmax, softmax
from sklearn.utils.validation import check_is_fitted, column_or_1d

from bagwise._compat import StrOptions
from bagwise.bags import Ragged
from bagwise.bags.segments import segment_argmax
from bagwise.base import MulticlassBagClassifier, ProbabilityMixin
from bagwise.base.estimator import check_bag_weight
from bagwise.neural._network import CONSTRAINTS, Job, NetworkMixin, fit_together


class NeuralBagClassifier(NetworkMixin, ProbabilityMixin, MulticlassBagClassifier):
    r"""Network with attention over the instances of a bag.

    With :math:`h_j = \mathrm{relu}(W x_j + c)` and weights :math:`a_j` that sum to one
    over a bag, :math:`a = \mathrm{softmax}(w' [\tanh(V h) \odot \sigma(U h)])` ([1]_,
    Eq. (9)), the score of a bag is

    .. math:: \sum_{j \in B} a_j f(h_j) + b \qquad \text{or} \qquad
              f\Bigl(\sum_{j \in B} a_j h_j\Bigr) + b,

    where `head` is "additive" ([2]_) or "pooled" ([1]_) and :math:`f` has one hidden
    layer of half the width. Several models are trained at the same time, with different
    initial weights and validation bags, and their scores are averaged.

    Parameters
    ----------
    pooling : {"gated", "attention", "mean", "max", "dsmil", "clam_sb", "clam_mb", \
            "dtfd", "transmil", "set_transformer"}, default="gated"
        The weights :math:`a_j`: gated attention, attention without the gate
        :math:`\sigma`, one over the size of the bag, or all on the largest; or a
        pooling with layers of its own, see Notes.
    head : {"additive", "pooled"}, default="additive"
        See above; of the first four poolings. With the additive head, and with the
        other poolings, `instance_scores` sum up to the score.
    hidden : int or tuple of int, default=256
        Width of :math:`h`; several layers with a tuple.
    attention : int, default=128
        Rows of :math:`V` and :math:`U`.
    dropout : float, default=0.5
        Share of the hidden units that is set to zero at random in training.
    encoder : str or callable, default=None
        The network that maps an instance to :math:`h`; by default the layers of
        `hidden`. A callable gets the shape of an instance and returns a torch module
        from (n, \*shape) to (n, width). A name is that of a registered encoder
        (`register_encoder`); "image" and "signal" are small convolutional networks.
    instance_shape : tuple of int, default=None
        The shape of an instance when `X` is `Bags`, which hold flat rows. It is
        inferred from a list of arrays of shape (n_instances, ...).
    learning_rate, weight_decay : float, default=1e-3 and 1e-4
        Parameters of AdamW. After a warm-up, the learning rate follows a cosine to
        zero at `max_epochs`.
    bags_per_step : int, default=32
        Maximum number of bags per step; fewer, but at least 4, if an epoch would have
        less than 16 steps.
    max_instances : int, default=512
        Maximum number of instances of a bag per step, sampled anew in each step; None
        takes all.
        Prediction always uses all.
    max_epochs : int, default=80
        Maximum number of passes over the bags.
    patience : int, default=10
        A model stops after this many passes without a lower validation loss. Its best
        weights are kept.
    validation_fraction : float, default=0.0
        About this share of the bags is kept for the validation loss, another fold for
        each model; classes keep their share and groups stay together. With zero, or
        too few bags of a class, all `max_epochs` are made.
    instance_dropout : float, default=0.0
        Share of the instances of each bag that is excluded at random in each step.
    mixup : float, default=0.0
        With a positive value, a bag in training is a random part of its instances and
        of those of another bag, with the labels in proportion, as in [8]_; the larger
        part is drawn from a beta distribution with both parameters equal to `mixup`.
    smoothness : float, default=0.0
        With a positive value below 1, the scores f of the attention are smoothed over
        the 8 nearest instances by coordinates, or by order if there are none, with ten
        steps of :math:`g \leftarrow (1 - \alpha) f + \alpha P g` ([9]_), where
        :math:`\alpha` is `smoothness` and P takes the mean over the neighbors. For
        ``pooling="gated"`` and "attention".
    n_models : int, default=5
        Number of models that are trained together and averaged.
    class_weight : dict or "balanced", default=None
        Weights of the classes.
    pos_label : label, default=None
        The positive class when there are two; `classes_[1]` by default. It matters
        for ``pooling="max"``.
    random_state : int or RandomState, default=None
        Random seed of weights, folds, the order of bags, instances and dropped units.
    device : str, default="auto"
        "cpu", "cuda", or any device of torch; "auto" takes a GPU when there is one.
    precision : {"auto", "float32", "bfloat16", "float16", "float64"}, default="auto"
        Precision of the matrix products; "auto" is bfloat16 on a GPU and float32
        otherwise. Weights, sums over bags and losses are float32 or better. `device`
        and `precision` may be changed after `fit`.
    verbose : int, default=0
        A positive value prints the memory that is needed, and every epoch.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels; 0, 1, ... for several labels per bag.
    weights_ : dict of ndarray
        The weights, with a leading axis for the model.
    attention_ : Ragged
        The weights :math:`a_j` of the training instances, averaged over the models.
    mean_, scale_ : ndarray of shape (n_features,)
        Mean and scale that standardize the instances.
    train_loss_, validation_loss_ : ndarray of shape (n_epochs, n_models)
        Losses after each epoch.
    best_epoch_ : ndarray of shape (n_models,)
        The epoch whose weights are kept.
    n_iter_ : int
        Number of epochs.

    Notes
    -----
    With ``pooling="max"`` and the additive head, adding an instance to a bag cannot
    decrease its score. Of the first four poolings and their heads, only this one was
    measured to respect the standard assumption. The attention to an instance depends on
    the other instances of its bag: such a model may learn "positive unless a negative
    instance is present".

    More than two classes have one score each and a softmax; a `y` of shape (n_bags, k)
    of zeros and ones means k labels, each with a logistic loss of its own.

    Bags are not padded to one size: the rows of a step are stacked. The models are
    trained together in batched products, so that five cost about as much as two on a
    GPU, where steps are recorded as CUDA graphs. Instances that would take more than
    half of the free memory of the GPU stay on the host and are streamed. An epoch costs
    O(rows * n_features * hidden * n_models), with at most `max_instances` rows of each
    bag.

    Poolings with layers of their own apply to :math:`h_j`, and have no `head`:

    - "dsmil" ([3]_): the mean of two streams, the highest linear score of an instance,
      and attention to the instances that resemble that one. Either has its own loss.
    - "clam_sb", "clam_mb" ([4]_): gated attention with one branch, or one for each
      class. The 8 instances with the highest and the lowest attention (half of a
      smaller bag) train a linear classifier of instances, with 0.3 of the loss.
    - "transmil" ([5]_): two layers of self-attention with 8 heads, for more than
      ``width / 2`` tokens in Nystroem's approximation, with convolutions on a square
      grid between them. It depends on the order of the instances.
    - "set_transformer" ([6]_): two layers of self-attention, then attention pooling.
    - "dtfd" ([7]_): attention in up to 8 pseudo-bags, and between them.

    Their forward pass and their loss equal those of torchmil 1.0.2 on shared weights
    (`studies/scripts/torchmil_forward.py`), apart from the differences below. They are
    evaluated on whole bags, and steps of a GPU are not recorded.

    Differs from [1]_: one hidden layer instead of three, several bags per step instead
    of one, several models. Differs from [2]_: the attention multiplies :math:`f(h_j)`
    instead of its argument. Differs from [3]_: with several outputs each has its own
    attention and no weights for those of the others. Differs from [4]_: bags of less
    than 16 instances. torchmil has no multiple branches, and its smooth loss sums over
    another axis than the classes; this is the loss of the paper. Differs from [5]_: the
    exact attention for few tokens, where the authors add zeros, and, as in torchmil, no
    convolution of values, no linear layer after the heads and no dropout in them.
    Differs from [6]_: layer normalization comes first, and attention pooling is that of
    [1]_ without the gate, as in torchmil. Differs from [7]_: of the ways to distill a
    pseudo-bag, the aggregated feature; groups are random in training only, later
    instances are dealt by the rank of their attention; the loss is the sum of both
    tiers. torchmil leaves out the gate. Differs from [8]_: pseudo-bags are random
    instances.

    A bag of weight two is not the same as a bag that is given twice, which takes part
    in more steps and changes the folds.

    References
    ----------
    .. [1] Ilse, M., Tomczak, J. M. and Welling, M., "Attention-based Deep Multiple
       Instance Learning", International Conference on Machine Learning, 2018.
    .. [2] Javed, S. A. et al., "Additive MIL: Intrinsically Interpretable Multiple
       Instance Learning for Pathology", NeurIPS, 2022.
    .. [3] Li, B., Li, Y. and Eliceiri, K. W., "Dual-stream Multiple Instance Learning
       Network for Whole Slide Image Classification with Self-supervised Contrastive
       Learning", CVPR, 2021.
    .. [4] Lu, M. Y. et al., "Data-efficient and weakly supervised computational
       pathology on whole-slide images", Nature Biomedical Engineering 5, 2021.
    .. [5] Shao, Z. et al., "TransMIL: Transformer based Correlated Multiple Instance
       Learning for Whole Slide Image Classification", NeurIPS, 2021.
    .. [6] Lee, J. et al., "Set Transformer: A Framework for Attention-based
       Permutation-Invariant Neural Networks", International Conference on Machine
       Learning, 2019.
    .. [7] Zhang, H. et al., "DTFD-MIL: Double-Tier Feature Distillation Multiple
       Instance Learning for Histopathology Whole Slide Image Classification", CVPR,
       2022.
    .. [8] Liu, P. et al., "Pseudo-Bag Mixup Augmentation for Multiple Instance
       Learning-Based Whole Slide Image Classification", IEEE Transactions on Medical
       Imaging 43, 2024.
    .. [9] Castro-Macias, F. M. et al., "Sm: enhanced localization in Multiple Instance
       Learning for medical imaging classification", NeurIPS, 2024.

    Examples
    --------
    >>> from bagwise.datasets import make_bags
    >>> from bagwise.neural import NeuralBagClassifier
    >>> X, y = make_bags(random_state=0)
    >>> model = NeuralBagClassifier(
    ...     hidden=16, learning_rate=0.02, max_epochs=20, random_state=0
    ... )
    >>> model.fit(X, y).score(X, y) > 0.8
    True
    """

    _parameter_constraints: dict = {
        **CONSTRAINTS,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        pooling="gated",
        *,
        head="additive",
        hidden=256,
        attention=128,
        dropout=0.5,
        encoder=None,
        instance_shape=None,
        learning_rate=1e-3,
        weight_decay=1e-4,
        bags_per_step=32,
        max_instances=512,
        max_epochs=80,
        patience=10,
        validation_fraction=0.0,
        instance_dropout=0.0,
        mixup=0.0,
        smoothness=0.0,
        n_models=5,
        class_weight=None,
        pos_label=None,
        random_state=None,
        device="auto",
        precision="auto",
        verbose=0,
    ):
        self.pooling = pooling
        self.head = head
        self.hidden = hidden
        self.attention = attention
        self.dropout = dropout
        self.encoder = encoder
        self.instance_shape = instance_shape
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.bags_per_step = bags_per_step
        self.max_instances = max_instances
        self.max_epochs = max_epochs
        self.patience = patience
        self.validation_fraction = validation_fraction
        self.instance_dropout = instance_dropout
        self.mixup = mixup
        self.smoothness = smoothness
        self.n_models = n_models
        self.class_weight = class_weight
        self.pos_label = pos_label
        self.random_state = random_state
        self.device = device
        self.precision = precision
        self.verbose = verbose

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.scale_sensitive = "no"
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        tags.input_tags.order_invariant = False  # steps and folds depend on positions
        tags.input_tags.asymmetric = self.pooling == "max"
        # Among four poolings and two heads, only this combination does. Attention also
        # learns "positive unless".
        tags.input_tags.respects_standard_assumption = (
            self.pooling == "max" and self.head == "additive"
        )
        return tags

    def _check_target(self, y):
        y = np.asarray(y)
        if y.ndim == 2 and y.shape[1] > 1:
            return y
        return column_or_1d(y, warn=True)

    def _encode_labels(self, y):
        self.multilabel_ = y.ndim == 2
        if not self.multilabel_:
            return super()._encode_labels(y)
        if y.dtype.kind not in "biuf" or not np.isin(y, (0, 1)).all():
            raise ValueError(
                f"y of shape {y.shape} is read as {y.shape[1]} labels for each bag, "
                "which must be 0 or 1. For one label per bag pass a 1-D array."
            )
        self.classes_ = np.arange(y.shape[1])
        return y.astype(np.float64)

    @property
    def _turned(self):
        return not self.multilabel_ and super()._turned

    def _bag_weight(self, codes, sample_weight, X=None):
        if not self.multilabel_:
            return super()._bag_weight(codes, sample_weight, X)
        if self.class_weight is not None:
            raise ValueError(
                "class_weight is for one label per bag. Use sample_weight to weight "
                "bags."
            )
        return check_bag_weight(sample_weight, len(codes), X)

    def _used(self, codes, weight):
        if self.multilabel_:
            return np.flatnonzero(weight > 0)
        return super()._used(codes, weight)

    def _job(self, codes, weight):
        """Return what is to be learned; intercepts start at the shares of classes."""
        share = weight / weight.sum()
        if not self.multilabel_ and len(self.classes_) > 2:
            rate = np.bincount(codes, share, len(self.classes_))
            start = log_softmax(np.log(np.maximum(rate, 1e-3)))
            return Job(self, codes, weight, codes, start, "softmax")
        targets = codes if self.multilabel_ else codes[:, None].astype(np.float64)
        rate = np.clip(share @ targets, 1e-3, 1.0 - 1e-3)
        start = np.log(rate) - np.log1p(-rate)
        strata = targets if self.multilabel_ else codes
        return Job(self, targets, weight, strata, start, "logistic")

    def _fit_codes(self, X, codes, weight):
        fit_together([self._job(codes, weight)], X)
        self._set_attention(X)

    def _masked_job(self, X, y, mask, sample_weight):
        """Return all bags, and what is to be learned from those of the mask."""
        X, y = self._check_bags(X, y, reset=True)
        codes = self._encode_labels(y)
        seen = np.flatnonzero(mask)
        weight = np.zeros(len(codes))
        given = check_bag_weight(sample_weight, len(codes), X)
        weight[seen] = self._bag_weight(codes[seen], given[seen])
        self._used(codes, weight)
        return X, self._job(codes, weight)

    def _one_score(self):
        return not self.multilabel_ and len(self.classes_) == 2

    def _decide(self, X):
        scores = self._evaluate(X)["scores"].mean(axis=1)
        return scores[:, 0] if self._one_score() else scores

    def _score_instances(self, X):
        scores = self._evaluate(X)["contributions"].mean(axis=1)
        return scores[:, 0] if self._one_score() else scores

    def _probabilities(self, X):
        return self._link(self._evaluate(X)["scores"].mean(axis=1))

    def _link(self, scores):
        """Turn scores, with the outputs on the last axis, to probabilities."""
        if self.multilabel_:
            return expit(scores)
        if len(self.classes_) == 2:
            return np.concatenate([expit(-scores), expit(scores)], axis=-1)
        return softmax(scores, axis=-1)

    def predict(self, X):
        """Predict the label, or the labels, of each bag.

        Parameters
        ----------
        X : Bags or sequence of arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,) or (n_bags, n_labels)
            One label per bag, or zeros and ones.
        """
        check_is_fitted(self)
        if self.multilabel_:
            return (self.decision_function(X) > 0).astype(np.int64)
        return super().predict(X)

    def predict_instances(self, X):
        """Predict the label, or the labels, of each instance.

        Parameters
        ----------
        X : Bags or sequence of arrays
            The bags.

        Returns
        -------
        Ragged
            Labels from the sign of `instance_scores` (two classes, or several labels)
            or its largest column (more classes).
        """
        check_is_fitted(self)
        if not self.multilabel_:
            return super().predict_instances(X)
        scores = self.instance_scores(X)
        return Ragged((scores.values > 0).astype(np.int64), scores.offsets)

    def key_instances(self, X):
        """Return the instance that decides, for each bag.

        Parameters
        ----------
        X : Bags or sequence of arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,) or (n_bags, n_labels)
            Position inside its bag of the instance with the highest score: for the
            positive class of two, for the predicted class of more, or for each label.
        """
        check_is_fitted(self)
        if not self.multilabel_:
            return super().key_instances(X)
        scores = self.instance_scores(X)
        rows = segment_argmax(scores.values, scores.offsets)
        return rows - scores.offsets[:-1, None]

    def predict_std(self, X):
        """Return the standard deviation over the models.

        Parameters
        ----------
        X : Bags or sequence of arrays
            The bags.

        Returns
        -------
        ndarray of shape (n_bags,) or (n_bags, n_outputs)
            Standard deviation over the models of the probability: of either class of
            two, of each class of more, of each label of several.
        """
        check_is_fitted(self)
        X = self._check_bags(X, reset=False)
        spread = self._link(self._evaluate(X)["scores"]).std(axis=1)
        return spread[:, 0] if self._one_score() else spread
