"""How the gallery runs and orders the examples."""

from pathlib import Path

# First what a newcomer asks, then what a method does; the rest follows by name.
ORDER = [
    "plot_own_csv",
    "plot_folder_of_slides",
    "plot_molecules",
    "plot_molecules_from_smiles",
    "plot_two_tables",
    "plot_single_cells",
    "plot_repertoires",
    "plot_text_threads",
    "plot_digit_images",
    "plot_binding_energies",
    "plot_largest_digit",
    "plot_multiclass",
    "plot_groups",
    "plot_imbalance",
    "plot_comparing",
    "plot_explaining",
    "plot_inside_bag_classifier",
    "plot_custom_method",
    "plot_custom_kernel",
    "plot_streaming",
    "plot_dask",
    "plot_key_instances",
]
QUICK = {"plot_midr_dimensions.py", "plot_midr_sparsity.py"}


def order(name: str) -> tuple[int, str]:
    """Return the position of an example in the gallery."""
    stem = Path(name).stem
    return (ORDER.index(stem) if stem in ORDER else len(ORDER), stem)


def arguments(gallery_conf: dict, script_vars: dict) -> list[str]:
    """Return the arguments an example runs with: the slow ones have a short way."""
    return ["--quick"] if Path(script_vars["src_file"]).name in QUICK else []
