"""An oracle for the curvature that an expansion releases: autograd's, unit by unit."""

from __future__ import annotations

import torch
from torch.func import hessian

from dpmac.nets.layers import with_one


def assert_curvature_is_autograds(curvature, problem, objective, z, target):
    """Every unit's own block of the Hessian, its negative eigenvalues raised to 0. One that all units share lies
    above the Gauss-Newton part of each."""
    if curvature is None:  # of order 1
        return
    matrix = problem.stage.layer.matrix()
    units, d = matrix.shape
    assert curvature.shape in ((units, d, d), (1, d, d))
    if len(curvature) == units:
        whole = hessian(objective)(matrix)
        values, vectors = torch.linalg.eigh(torch.stack([whole[h, :, h] for h in range(units)]))
        assert torch.allclose(curvature, vectors * values.clamp(min=0).unsqueeze(1) @ vectors.mT, atol=1e-9)
        return
    u, inputs = problem.stage.pre_activation(z), with_one(problem.stage.inputs(z))
    eye = torch.eye(units, dtype=u.dtype).expand(len(u), units, units)
    with torch.no_grad():
        diagonal = problem.loss.hessian_root(u, target).transposed(eye).square().sum(dim=2)  # of A A^T, row by row
    for h in range(units):
        block = (inputs * diagonal[:, h : h + 1]).T @ inputs
        assert float(torch.linalg.eigvalsh(curvature[0] - block.detach()).min()) > -1e-9
