"""
Molecules from SMILES: bags of conformers
=========================================

From a list of names and SMILES to bags: RDKit generates several conformers per
molecule, and descriptors measure how compact, flat and elongated each of them is. The
conformers of a molecule form a bag. The target is a property of one conformer: the
distance between the farthest two heavy atoms of the most extended conformer among twice
as many conformers. Replace the list and the target by your own, for example a pIC50. A
maximum of linear scores uses the knowledge that one conformer decides. The mean of the
conformers does not, but long molecules are long on average, so that both perform well.

Needs RDKit. Run it with a folder for the figure:
``python plot_molecules_from_smiles.py build/examples``.
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import Bags
from bagwise.compose import OnInstances, SimpleMIRegressor
from bagwise.inspection import instance_scores
from bagwise.linear_model import MILinearRegression

MOLECULES = """
aspirin CC(=O)Oc1ccccc1C(=O)O
paracetamol CC(=O)Nc1ccc(O)cc1
ibuprofen CC(C)Cc1ccc(cc1)C(C)C(=O)O
naproxen COc1ccc2cc(ccc2c1)C(C)C(=O)O
caffeine Cn1cnc2c1c(=O)n(C)c(=O)n2C
nicotine CN1CCCC1c1cccnc1
dopamine NCCc1ccc(O)c(O)c1
adrenaline CNCC(O)c1ccc(O)c(O)c1
serotonin NCCc1c[nH]c2ccc(O)cc12
melatonin COc1ccc2[nH]cc(CCNC(C)=O)c2c1
lidocaine CCN(CC)CC(=O)Nc1c(C)cccc1C
procaine CCN(CC)CCOC(=O)c1ccc(N)cc1
propranolol CC(C)NCC(O)COc1cccc2ccccc12
atenolol CC(C)NCC(O)COc1ccc(CC(N)=O)cc1
salbutamol CC(C)(C)NCC(O)c1ccc(O)c(CO)c1
diphenhydramine CN(C)CCOC(c1ccccc1)c1ccccc1
fluoxetine CNCCC(Oc1ccc(cc1)C(F)(F)F)c1ccccc1
amitriptyline CN(C)CCC=C1c2ccccc2CCc2ccccc21
diazepam CN1C(=O)CN=C(c2ccccc2)c2cc(Cl)ccc12
warfarin CC(=O)CC(c1ccccc1)c1c(O)c2ccccc2oc1=O
metformin CN(C)C(=N)NC(N)=N
glucose OCC1OC(O)C(O)C(O)C1O
citric_acid OC(=O)CC(O)(CC(=O)O)C(=O)O
ascorbic_acid OCC(O)C1OC(=O)C(O)=C1O
benzene c1ccccc1
toluene Cc1ccccc1
naphthalene c1ccc2ccccc2c1
anthracene c1ccc2cc3ccccc3cc2c1
biphenyl c1ccc(cc1)-c1ccccc1
phenol Oc1ccccc1
aniline Nc1ccccc1
vanillin COc1cc(C=O)ccc1O
eugenol COc1cc(CC=C)ccc1O
cinnamaldehyde O=CC=Cc1ccccc1
menthol CC(C)C1CCC(C)CC1O
limonene CC1=CCC(CC1)C(C)=C
geraniol CC(C)=CCCC(C)=CCO
citronellal CC(CCC=C(C)C)CC=O
octane CCCCCCCC
decane CCCCCCCCCC
octanol CCCCCCCCO
dodecane CCCCCCCCCCCC
lauric_acid CCCCCCCCCCCC(=O)O
palmitic_acid CCCCCCCCCCCCCCCC(=O)O
oleic_acid CCCCCCCCC=CCCCCCCCC(=O)O
glycine NCC(=O)O
phenylalanine NC(Cc1ccccc1)C(=O)O
tryptophan NC(Cc1c[nH]c2ccccc12)C(=O)O
arginine NC(CCCNC(N)=N)C(=O)O
lysine NCCCCC(N)C(=O)O
glutamic_acid NC(CCC(=O)O)C(=O)O
methionine CSCCC(N)C(=O)O
histamine NCCc1c[nH]cn1
acetylcholine CC(=O)OCC[N+](C)(C)C
thymol Cc1ccc(C(C)C)c(O)c1
camphor CC1(C)C2CCC1(C)C(=O)C2
adamantane C1C2CC3CC1CC(C2)C3
cyclohexane C1CCCCC1
glycerol OCC(O)CO
urea NC(N)=O
""".split()

N_SHAPES = 6
FEATURES = {
    "radius of gyration": "CalcRadiusOfGyration",
    "asphericity": "CalcAsphericity",
    "eccentricity": "CalcEccentricity",
    "inertial shape factor": "CalcInertialShapeFactor",
    "ratio of moments 1": "CalcNPR1",
    "ratio of moments 2": "CalcNPR2",
    "spherocity": "CalcSpherocityIndex",
    "distance from a plane": "CalcPBF",
}


def shapes_of(smiles, n_shapes):
    """Return a row of features, and the span, of each conformer of a molecule."""
    from rdkit import Chem
    from rdkit.Chem import AllChem, rdMolDescriptors

    molecule = Chem.AddHs(Chem.MolFromSmiles(smiles))
    found = AllChem.EmbedMultipleConfs(molecule, n_shapes, randomSeed=7)
    molecule = Chem.RemoveHs(molecule)
    rows, spans = [], []
    for k in found:
        call = [getattr(rdMolDescriptors, name) for name in FEATURES.values()]
        rows.append([function(molecule, confId=k) for function in call])
        atoms = molecule.GetConformer(k).GetPositions()
        spans.append(np.linalg.norm(atoms[:, None] - atoms[None], axis=2).max())
    return np.array(rows), np.array(spans)


def make_bags():
    """Return the bags, the value of each, and the span of each conformer."""
    names, smiles = MOLECULES[::2], MOLECULES[1::2]
    shapes = [shapes_of(text, 2 * N_SHAPES) for text in smiles]
    rows = [features[:N_SHAPES] for features, _ in shapes]
    X = Bags.from_list(rows, ids=names, feature_names=list(FEATURES))
    y = np.array([spans.max() for _, spans in shapes])
    return X, y, np.concatenate([spans[:N_SHAPES] for _, spans in shapes])


def methods():
    """Return the regressors, each scaled and tuned inside its training bags."""
    largest = MILinearRegression("max", random_state=0)
    found = {
        "mean + ridge": SimpleMIRegressor(RidgeCV(np.logspace(-3, 3, 13))),
        "max of linear values": GridSearchCV(largest, {"C": [1.0, 10.0, 100.0]}, cv=3),
    }
    return {
        name: make_pipeline(OnInstances(StandardScaler()), method)
        for name, method in found.items()
    }


def draw(ax, truth, found, xlabel, ylabel):
    """Draw one against the other, with the identity line."""
    ends = [min(truth.min(), found.min()), max(truth.max(), found.max())]
    ax.plot(ends, ends, color="0.6", linewidth=1)
    ax.scatter(truth, found, s=14, alpha=0.7, linewidths=0)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)


def main():
    """Make the figure and print the table."""
    try:
        import rdkit  # noqa: F401
    except ImportError:
        print("This example needs rdkit: pip install rdkit")
        return
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/examples")
    folder.mkdir(parents=True, exist_ok=True)
    X, y, spans = make_bags()
    print(f"{X!r}")
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    for ax, (name, model) in zip(axes, methods().items(), strict=False):
        found = cross_val_predict(model, X, y, cv=5)
        score = r2_score(y, found)
        print(f"{name:<22} R2 {score:.3f} (five folds)")
        draw(ax, y, found, "largest span (Å)", "predicted, out of fold")
        ax.set_title(f"{name}: R2 {score:.2f}", fontsize=9)
        far = np.argsort(-np.abs(found - y))[:3]
        for i in far:
            place = {"xytext": (-4, 3), "textcoords": "offset points", "ha": "right"}
            ax.annotate(X.ids[i], (y[i], found[i]), fontsize=7, **place)
    values = instance_scores(model.fit(X, y), X).values
    draw(axes[2], spans, values, "span of the shape (Å)", "its value in the model")
    axes[2].set_title("single shapes, whose spans no model was told", fontsize=9)
    figure.savefig(folder / "molecules_from_smiles.png", dpi=110)


if __name__ == "__main__":
    main()
