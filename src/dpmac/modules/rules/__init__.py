"""Rules: for each of torch's functions that layers are made of, how every row's gradient of its parameters is found.

A rule is called in place of the function, with the watch, the function itself and its arguments. It computes the output
through :meth:`Watch.run`, and says how the gradient of the output gives the shares of the parameters. A new one is a
function and a line here; tests compare it with autograd, one row at a time. Calls without a rule run as they are, and
parameters that only such calls use are differentiated row by row (:mod:`dpmac.modules.whole_rows`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.nn import functional as F

from dpmac.modules.rules import (
    arithmetic,
    attention,
    convolution,
    embedding,
    linear,
    normalisation,
    pooling,
    randomness,
    recurrent,
    targets,
)
from dpmac.modules.taps import Rule

RULES: Mapping[Any, Rule] = {
    F.linear: linear.linear,
    torch.matmul: linear.matmul,
    torch.mm: linear.matmul,
    torch.Tensor.matmul: linear.matmul,
    torch.Tensor.__matmul__: linear.matmul,
    torch.Tensor.mm: linear.matmul,
    torch.conv1d: convolution.conv,
    torch.conv2d: convolution.conv,
    torch.conv3d: convolution.conv,
    torch.conv_transpose1d: convolution.conv_transpose,
    torch.conv_transpose2d: convolution.conv_transpose,
    torch.conv_transpose3d: convolution.conv_transpose,
    F.embedding: embedding.embedding,
    F.embedding_bag: embedding.embedding_bag,
    F.layer_norm: normalisation.layer_norm,
    F.group_norm: normalisation.group_norm,
    F.instance_norm: normalisation.instance_norm,
    F.rms_norm: normalisation.rms_norm,
    F.max_pool2d: pooling.max_pool2d,
    torch.max_pool2d: pooling.max_pool2d,
    F.multi_head_attention_forward: attention.multi_head_attention,
    torch.lstm: recurrent.lstm,
    torch.gru: recurrent.gru,
    torch.rnn_tanh: recurrent.rnn_tanh,
    torch.rnn_relu: recurrent.rnn_relu,
    torch.lstm_cell: recurrent.lstm_cell,
    torch.gru_cell: recurrent.gru_cell,
    torch.add: arithmetic.add,
    torch.Tensor.add: arithmetic.add,
    torch.Tensor.__add__: arithmetic.add,
    torch.Tensor.__radd__: arithmetic.add,
    torch.mul: arithmetic.mul,
    torch.Tensor.mul: arithmetic.mul,
    torch.Tensor.__mul__: arithmetic.mul,
    torch.Tensor.__rmul__: arithmetic.mul,
    torch.Tensor.expand: arithmetic.expand,
    F.cross_entropy: targets.classes,
    F.nll_loss: targets.classes,
    F.dropout: randomness.dropout,
    F.dropout1d: randomness.dropout,
    F.dropout2d: randomness.dropout,
    F.dropout3d: randomness.dropout,
    F.alpha_dropout: randomness.dropout,
    F.feature_alpha_dropout: randomness.dropout,
}
