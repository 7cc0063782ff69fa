"""Losses of bags: logistic, softmax, squared, and Cox's partial likelihood."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F

# Replaces the logarithm of a zero weight, so that the gradient stays finite.
_NEVER = -1e30


def bag_losses(loss, scores, targets, weight=None):
    """Return losses of shape (n_bags, n_models).

    Parameters
    ----------
    loss : {"logistic", "softmax", "squared", "cox"}
        Logistic loss of each output, cross-entropy over the outputs, half the squared
        error, or Cox's partial likelihood; the mean over the outputs.
    scores : tensor of shape (n_bags, n_models, n_outputs)
        Scores of the models.
    targets : tensor
        Codes of shape (n_bags,) for "softmax", times and events of shape (n_bags, 1 or
        n_models, 2) for "cox", otherwise values that broadcast to the scores.
    weight : tensor of shape (n_bags, n_models), default=None
        Weights of the bags, which "cox" needs for its risk sets.
    """
    if loss == "softmax":
        n_bags, n_models, n_outputs = scores.shape
        codes = targets[:, None].expand(n_bags, n_models).reshape(-1)
        flat = F.cross_entropy(scores.reshape(-1, n_outputs), codes, reduction="none")
        return flat.reshape(n_bags, n_models)
    if loss == "cox":
        return cox_losses(scores[:, :, 0], targets[:, 0, 0], targets[:, 0, 1], weight)
    targets = torch.broadcast_to(targets, scores.shape)
    if loss == "logistic":
        each = F.binary_cross_entropy_with_logits(scores, targets, reduction="none")
    else:
        each = 0.5 * (scores - targets) ** 2
    return each.mean(dim=2)


def cox_losses(scores, time, event, weight=None):
    r"""Return the terms of the negative logarithm of Cox's partial likelihood.

    That of a bag with an event is :math:`\log \sum_{j: t_j \ge t_i} w_j e^{s_j} - s_i`,
    with Breslow's treatment of equal times; that of a censored bag is zero.

    Parameters
    ----------
    scores : tensor of shape (n_bags, n_models)
        The logarithms of the hazards, s.
    time, event : tensors of shape (n_bags,)
        When a bag was seen last, and whether that was its event.
    weight : tensor of shape (n_bags, n_models), default=None
        The weights w. Bags of weight zero are in no risk set.
    """
    given = scores
    if weight is not None:
        seen = weight > 0
        logarithm = torch.log(torch.where(seen, weight, torch.ones_like(weight)))
        given = torch.where(seen, scores + logarithm, scores.new_tensor(_NEVER))
    latest = torch.argsort(time, descending=True, stable=True)
    total = torch.logcumsumexp(given[latest], dim=0)
    rising = time[latest].flip(0).contiguous()
    n_at_risk = len(time) - torch.searchsorted(rising, time.contiguous())
    return event[:, None] * (total[n_at_risk - 1] - scores)


@dataclass
class Goal:
    """What the scores of some bags are compared with."""

    loss: str
    targets: torch.Tensor
    weight: torch.Tensor  # (n_bags, n_models)

    def losses(self, scores, bag=None):
        """Return losses of scores; `bag` is the bag of each score, if not its own."""
        pick = slice(None) if bag is None else bag
        return bag_losses(self.loss, scores, self.targets[pick], self.weight[pick])

    def members(self, n_outputs):
        """Return the classes of bags, (n_bags, 1 or n_models, n_classes)."""
        if self.loss == "softmax":
            return F.one_hot(self.targets, n_outputs)[:, None, :].to(self.weight.dtype)
        if n_outputs == 1:
            return torch.cat([1.0 - self.targets, self.targets], dim=2)
        return self.targets
