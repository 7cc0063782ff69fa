"""PC-SVM: MI-SVM with projection constraints."""
