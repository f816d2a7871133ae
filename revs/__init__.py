"""REVS: rank editing in the vocabulary space, the method of Ashuach, Tutek and Belinkov (ACL 2025 Findings), to run."""
