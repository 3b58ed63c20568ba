package verify_test

import (
	"context"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// A summed source has the CRC-32 of each tensor.
type summed struct {
	*source
	wrong int // the number of a tensor of which it is another
}

type crcOf struct {
	s summed
	i int
}

func (c crcOf) Compare(crc uint32) error {
	p := make([]byte, c.s.Tensors()[c.i].Size)
	if err := tensor.ReadFull(c.s.source, c.i, p, 0); err != nil {
		return err
	}
	if crc != crc32.ChecksumIEEE(p) || c.i == c.s.wrong {
		return tensor.ErrFormat
	}
	return nil
}

func (c crcOf) Read(context.Context) error {
	p := make([]byte, c.s.Tensors()[c.i].Size)
	if err := tensor.ReadFull(c.s.source, c.i, p, 0); err != nil {
		return err
	}
	return c.Compare(crc32.ChecksumIEEE(p))
}

func (s summed) Sums(i int) ([]tensor.Sum, bool) { return []tensor.Sum{crcOf{s, i}}, true }
func (s summed) OtherSums() []tensor.Sum         { return nil }

// TestMeasureSums: the checksums of both sources are compared, with tiles of
// several types, and with tensors whose rows are read in another order.
func TestMeasureSums(t *testing.T) {
	q, v := gauss(1, 32*6000, 1), gauss(2, 200_001, 1)
	hf := new(source).add("model.layers.3.self_attn.q_proj.weight", tensor.F32, bytes32(q), 32, 6000).
		add("model.layers.3.self_attn.v_proj.weight", tensor.F32, bytes32(v), 200_001)
	g := gguf("llama", 4, 2)
	g.add("blk.3.attn_q.weight", tensor.BF16, encode(tensor.BF16, wide(permuteRows(q, 4, 32))), 32, 6000).
		add("blk.3.attn_v.weight", tensor.F64, encode(tensor.F64, wide(v)), 200_001)
	for wrong := -1; wrong < 2; wrong++ {
		right := metaSummed{summed{g.source, -1}, g.meta}
		for _, pair := range [][2]tensor.Source{{summed{hf, wrong}, right}, {right, summed{hf, wrong}},
			{summed{hf, -1}, metaSummed{summed{g.source, wrong}, g.meta}}} {
			ref, got, m, err := verify.MapNames(pair[0], pair[1])
			require.NoError(t, err)
			require.Equal(t, 1, m.Permuted)
			_, err = verify.Measure(t.Context(), ref, got, nil)
			if wrong < 0 {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, tensor.ErrFormat)
			}
		}
	}
}

type metaSummed struct {
	summed
	meta tensor.Metadata
}

func (m metaSummed) Meta() tensor.Metadata { return m.meta }
