"""What a bag's scores cost, one value per bag and model."""

import torch
import torch.nn.functional as F


def bag_losses(loss, scores, targets):
    """Return losses of shape (n_bags, n_models).

    Parameters
    ----------
    loss : {"logistic", "softmax", "squared"}
        Logistic loss of each output, cross-entropy over the outputs, or half the
        squared error; the mean over the outputs.
    scores : tensor of shape (n_bags, n_models, n_outputs)
        What the models say.
    targets : tensor
        Codes of shape (n_bags,) for "softmax", otherwise values that broadcast to the
        scores.
    """
    if loss == "softmax":
        n_bags, n_models, n_outputs = scores.shape
        codes = targets[:, None].expand(n_bags, n_models).reshape(-1)
        flat = F.cross_entropy(scores.reshape(-1, n_outputs), codes, reduction="none")
        return flat.reshape(n_bags, n_models)
    targets = torch.broadcast_to(targets, scores.shape)
    if loss == "logistic":
        each = F.binary_cross_entropy_with_logits(scores, targets, reduction="none")
    else:
        each = 0.5 * (scores - targets) ** 2
    return each.mean(dim=2)
