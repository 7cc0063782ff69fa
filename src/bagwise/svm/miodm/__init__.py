"""MI-ODM and KI-SVM: key instances by a convex relaxation."""
