"""Any torch module, trained privately: every row's gradients through the same release as everything else."""
