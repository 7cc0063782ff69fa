"""
Molecules from SMILES: bags of conformers
=========================================

A table with a column of SMILES becomes bags: RDKit generates conformers of each
molecule, and the features of a conformer are descriptors of its 3-D shape. Molecules of
one Bemis-Murcko scaffold stay in one fold. A method that learns from the 2-D
fingerprint alone shows whether the conformers help.

The target of this example is computed: the distance between the farthest two heavy
atoms in the most extended of several conformers. Replace the table and the target by
your own, for example a pIC50. Needs the extra ``bagwise[chem]``.
"""

# %%
# The table
# ---------
# One row per molecule, with its name, its SMILES and the target.
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from rdkit import Chem
from rdkit.Chem import rdDistGeom

import bagwise
from bagwise.comparison import CrossValidation
from bagwise.inspection import instance_scores

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


def spans(molecule):
    """Return the distance of the farthest two heavy atoms in each conformer."""
    heavy = [atom.GetIdx() for atom in molecule.GetAtoms() if atom.GetAtomicNum() > 1]
    places = [shape.GetPositions()[heavy] for shape in molecule.GetConformers()]
    return [np.linalg.norm(own[:, None] - own, axis=2).max() for own in places]


def largest_span(smiles):
    """Return the largest span of 12 conformers."""
    molecule = Chem.AddHs(Chem.MolFromSmiles(smiles))
    rdDistGeom.EmbedMultipleConfs(molecule, 12, randomSeed=1)
    return max(spans(molecule))


table = pd.DataFrame({"name": MOLECULES[::2], "smiles": MOLECULES[1::2]})
table["span"] = [largest_span(smiles) for smiles in table["smiles"]]
table.loc[len(table)] = ["misspelled", "c1ccc", 5.0]
path = Path(tempfile.mkdtemp()) / "molecules.csv"
table.to_csv(path, index=False)
print(table.tail(3))

# %%
# Bags of conformers
# ------------------
# Rows that cannot be read are listed in one message. ``on_missing="drop"`` excludes
# them with a warning.
options = {"bag": "name", "label": "span", "smiles": "smiles"}
try:
    bagwise.read_bags(path, **options)
except ValueError as error:
    print(error)
X, y = bagwise.read_bags(path, **options, conformers=6, on_missing="drop")
print(X)
print(len(set(X.groups)), "scaffolds;", X.feature_names[:4])

# %%
# Compare conformers with a 2-D fingerprint
# -----------------------------------------
# The command is ``bagwise compare molecules.csv --bag name --target span --smiles
# smiles --on-missing drop``. Without ``methods``, the fingerprint is included
# automatically.
found = bagwise.compare(
    X,
    y,
    methods=["2-D fingerprint + ridge", "Mean + ridge", "Linear, max"],
    protocol=CrossValidation(5),
    progress=False,
)
print(found)

# %%
# Values of the conformers
# ------------------------
# The value of each conformer in the linear model that predicts the largest value of a
# molecule: more extended conformers of a molecule have larger values.
model = found.fit_best("Linear, max").model
values = instance_scores(model, X).values
shown = ["dodecane", "geraniol", "lidocaine", "phenylalanine", "adamantane"]
fig, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
for name in shown:
    (bag,) = np.flatnonzero(X.ids == name)
    rows = slice(X.offsets[bag], X.offsets[bag + 1])
    sizes = X.data[rows, X.feature_names.tolist().index("RadiusOfGyration")]
    ax.scatter(sizes, values[rows], s=22, label=name)
ax.set(xlabel="radius of gyration (Å)", ylabel="value of the conformer (Å)")
ax.legend(frameon=False, fontsize=8)
plt.show()
