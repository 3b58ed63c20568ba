package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/safetensors"
	"github.com/demi-weights/demi/tensor"
)

// made returns a file with this header and n bytes of data: 1, 2, 3, ...
func made(header string, n int) []byte {
	p := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	p = append(p, header...)
	for i := range n {
		p = append(p, byte(i+1))
	}
	return p
}

// one returns a file with one tensor "a", as these fields say.
func one(dtype, shape, offsets string, n int) []byte {
	return made(fmt.Sprintf(`{"a":{"dtype":"%s","shape":[%s],"data_offsets":[%s]}}`, dtype, shape, offsets), n)
}

const a4 = `"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}` // takes 4 bytes

func open(p []byte, o *safetensors.Options) (*safetensors.File, error) {
	return safetensors.NewFile(bytes.NewReader(p), int64(len(p)), o)
}

func mustOpen(t testing.TB, p []byte) *safetensors.File {
	t.Helper()
	f, err := open(p, nil)
	require.NoError(t, err)
	return f
}

// class is the class of an error, in a word.
func class(err error) string {
	for word, class := range map[string]error{"format": tensor.ErrFormat, "truncated": tensor.ErrTruncated,
		"unsupported": tensor.ErrUnsupported, "limit": tensor.ErrLimit} {
		if errors.Is(err, class) {
			return word
		}
	}
	if err == nil {
		return "ok"
	}
	return "no class"
}

// shown lists the tensors of a source: "a":F32:[1]:4.
func shown(s tensor.Source) string {
	var out []string
	for _, in := range s.Tensors() {
		shape := strings.ReplaceAll(fmt.Sprint(in.Shape), " ", ",")
		out = append(out, fmt.Sprintf("%q:%s:%s:%d", in.Name, in.TypeName(), shape, in.Size))
	}
	return strings.Join(out, " ")
}

// content reads the bytes of every tensor.
func content(t require.TestingT, s tensor.Source) map[string]string {
	out := make(map[string]string)
	for i, in := range s.Tensors() {
		p := make([]byte, in.Size)
		_, err := io.ReadFull(io.NewSectionReader(s.Data(i), 0, in.Size), p)
		require.NoError(t, err)
		out[in.Name] = string(p)
	}
	return out
}

// copyTo writes all of a source into a sink, in an order, piece bytes at a
// time.
func copyTo(t testing.TB, src tensor.Source, order []int, sink tensor.Sink, piece int64) {
	t.Helper()
	infos := make([]tensor.Info, len(order))
	for to, from := range order {
		infos[to] = src.Tensors()[from]
	}
	require.NoError(t, sink.Begin(infos, src.Meta()))
	for to, from := range order {
		for off := int64(0); off < infos[to].Size; off += piece {
			p := make([]byte, min(piece, infos[to].Size-off))
			_, err := src.Data(from).ReadAt(p, off)
			require.NoError(t, err)
			require.NoError(t, sink.Write(to, off, p))
		}
	}
	require.NoError(t, sink.Finish(nil))
}

// written returns what NewWriter makes of a source.
func written(t testing.TB, src tensor.Source, o *safetensors.WriteOptions) []byte {
	t.Helper()
	var out bytes.Buffer
	copyTo(t, src, safetensors.Order(src.Tensors(), o), safetensors.NewWriter(&out, o), 1<<16-1)
	return out.Bytes()
}

// allocated returns the bytes that f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
