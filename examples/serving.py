"""Predict bags over HTTP: MODEL=model.bagwise uvicorn serving:app."""

import os

import numpy as np
from fastapi import FastAPI, HTTPException
from pydantic import BaseModel

import bagwise

model = bagwise.load(os.environ["MODEL"])
model.predict([np.zeros((2, model.n_features_in_))])  # loads the compiled code
app = FastAPI(title="bagwise")


class Bags(BaseModel):
    """Bags of instances: one list of numbers per instance."""

    bags: list[list[list[float]]]


@app.post("/predict")
def predict(request: Bags) -> dict:  # not async: requests run in threads
    """Return the label and the score of every bag."""
    try:
        bags = [np.asarray(bag) for bag in request.bags]
        label, score = model.predict(bags), model.decision_function(bags)
    except ValueError as error:  # the message names the bag and the error
        raise HTTPException(422, str(error)) from None
    return {"label": label.tolist(), "score": score.tolist()}
