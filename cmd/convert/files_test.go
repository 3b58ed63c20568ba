package main

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/tensor"
)

// A source that changes while it is converted is an error, not a hash of
// something else.
func TestSourceChangesWhileItIsConverted(t *testing.T) {
	name := filepath.Join(t.TempDir(), "m.safetensors")
	text, err := os.ReadFile("../../testdata/charlm/model.safetensors")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, text, 0o666))
	c, err := demi.Open(name, nil)
	require.NoError(t, err)
	defer c.Close()
	j := &job{src: name}
	j.source, err = c.Identity()
	require.NoError(t, err)
	d := &document{Inputs: newFiles(c)}
	require.NoError(t, j.hashFiles(context.Background(), d, c, nil))
	require.Len(t, d.Inputs[0].SHA256, 64)
	require.NoError(t, os.Chtimes(name, time.Unix(1, 0), time.Unix(1, 0)))
	err = j.hashFiles(context.Background(), d, c, nil)
	require.ErrorIs(t, err, tensor.ErrChanged)
	require.Equal(t, classInput, classify(err))
	require.ErrorContains(t, err, name)
}

// The default of --max-memory: half of what the cgroup may have, at most 1 GiB.
func TestDefaultMemory(t *testing.T) {
	limit := func(n uint64, err error) memlimit.Provider { return func() (uint64, error) { return n, err } }
	for _, c := range []struct {
		limit memlimit.Provider
		want  int64
	}{
		{limit(0, memlimit.ErrNoLimit), 1 << 30}, {limit(0, memlimit.ErrNoCgroup), 1 << 30}, {limit(0, errors.New("no mount")), 1 << 30},
		{limit(512<<20, nil), 256 << 20}, {limit(2<<30, nil), 1 << 30}, {limit(64<<30, nil), 1 << 30}, {limit(math.MaxUint64, nil), 1 << 30},
	} {
		require.Equal(t, c.want, halfOf(c.limit))
	}
	require.LessOrEqual(t, defaultMemory(), int64(1<<30))
	require.Positive(t, defaultMemory())
}
