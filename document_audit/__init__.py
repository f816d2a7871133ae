"""Your own model and documents: from documents to an edit and its report."""
