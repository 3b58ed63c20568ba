"""Writes TYPE.blocks (source blocks) and TYPE.f32 (the values that the Python
package of ggml reads from them, float32 little-endian) for the types that
Dequantize knows. Needs: pip install gguf==0.19.0

The bytes are random but for the scales of the first blocks, which are zeros,
subnormals, the smallest normal, the largest and both infinities.
"""

import os

import numpy as np
from gguf import GGMLQuantizationType, quants
from gguf.constants import GGML_QUANT_SIZES

BLOCKS = 14
# offsets of the binary16 scales in a block
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [],
    "NVFP4": [], "TQ1_0": [52], "TQ2_0": [64],
}
EDGES = [0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x3C00]

rng = np.random.default_rng(4)
here = os.path.dirname(os.path.abspath(__file__))
for name, halves in HALVES.items():
    kind = GGMLQuantizationType[name]
    size = GGML_QUANT_SIZES[kind][1]
    blocks = rng.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
    for at in halves:
        scales = rng.normal(0, 0.02, BLOCKS).astype(np.float16).view(np.uint16)
        scales[: len(EDGES)] = EDGES
        blocks[:, at : at + 2] = scales.astype("<u2").view(np.uint8).reshape(BLOCKS, 2)
    if name == "MXFP4":
        blocks[:8, 0] = [0, 1, 2, 3, 127, 128, 254, 255]
    if name == "NVFP4":
        blocks[:, :4] &= 0x7F  # scales have no sign
        blocks[:2, :4] = [[0, 1, 7, 8], [9, 0x77, 0x7E, 0x7F]]
    with np.errstate(all="ignore"):
        values = quants.dequantize(blocks, kind)
    blocks.tofile(os.path.join(here, name + ".blocks"))
    values.astype("<f4").tofile(os.path.join(here, name + ".f32"))
