package doctor_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/doctor"
)

// made is a safetensors file: its header as it is given, and the data.
func made(header, data string) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + data
}

const pt = `"__metadata__":{"format":"pt"},`

// aligned is made with a header that ends on 64 bytes, and is in order but for
// what is in it.
func aligned(members, data string) string {
	header := "{" + members + "}"
	return made(header+strings.Repeat(" ", -(len(header)+8)&63), data)
}

func described(name, dtype, shape string, from, to int) string {
	return fmt.Sprintf(`"%s":{"dtype":"%s","shape":[%s],"data_offsets":[%d,%d]}`, name, dtype, shape, from, to)
}

// one is a file with one tensor of two values.
func one(name, dtype, data string) string {
	return aligned(pt+described(name, dtype, "2", 0, len(data)), data)
}

const f32 = "\x00\x00\x80\x3f\x00\x00\x00\x40" // 1, 2

// shard names a shard of the set m.
func shard(no, count int) string { return fmt.Sprintf("m-%05d-of-%05d.safetensors", no, count) }

// files are a directory to be made: names and contents. "-> x" is a symbolic
// link.
type files map[string]string

const indexName = "m.safetensors.index.json"

// indexed is a set of two shards with tensors a and b, whose index is given.
func indexed(index string) files {
	return files{shard(1, 2): one("a", "F32", f32), shard(2, 2): one("b", "F32", f32), indexName: index}
}

// index is the text of an index: pairs of a tensor and a file.
func index(total int, pairs ...string) string {
	var list []string
	for i := 0; i < len(pairs); i += 2 {
		list = append(list, fmt.Sprintf("%q: %q", pairs[i], pairs[i+1]))
	}
	return fmt.Sprintf(`{"metadata": {"total_size": %d, "note": "kept"}, "weight_map": {%s}}`, total, strings.Join(list, ", "))
}

func goodIndex() string { return index(16, "a", shard(1, 2), "b", shard(2, 2)) }

// with adds or replaces files.
func (f files) with(pairs ...string) files {
	out := files{}
	for name, content := range f {
		out[name] = content
	}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

func (f files) without(name string) files {
	out := f.with()
	delete(out, name)
	return out
}

func (f files) write(t testing.TB, dir string) {
	t.Helper()
	for name, content := range f {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		if to, ok := strings.CutPrefix(content, "-> "); ok {
			require.NoError(t, os.Symlink(to, path))
			continue
		}
		require.NoError(t, os.WriteFile(path, []byte(content), 0o666))
	}
}

func examine(t testing.TB, path string, o *doctor.Options) *doctor.Report {
	t.Helper()
	r, err := doctor.Examine(context.Background(), path, o)
	require.NoError(t, err)
	check(t, r)
	return r
}

// check: every finding is of the table and says what to do.
func check(t testing.TB, r *doctor.Report) {
	t.Helper()
	for _, f := range r.Findings {
		require.True(t, slices.ContainsFunc(doctor.Codes(), func(c doctor.Code) bool { return c.Code == f.Code }), f.Code)
		require.NotEmpty(t, f.Text, f.Code)
		require.NotEmpty(t, f.Fix, f.Code)
		require.NotEmpty(t, f.File, f.Code)
		require.NotContains(t, f.Text+f.Fix, "\n")
		require.NotZero(t, f.Offset)
	}
}

// shown lists the findings: "error/code", with "!" if Fix will do it.
func shown(r *doctor.Report) (list []string) {
	for _, f := range r.Findings {
		s := string(f.Severity) + "/" + f.Code
		if f.Fixable {
			s += "!"
		}
		list = append(list, s)
	}
	slices.Sort(list)
	return list
}

// snapshot has the content of all files of a tree.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		require.NoError(t, err)
		if d.Type().IsRegular() {
			p, err := os.ReadFile(path)
			require.NoError(t, err)
			all[path] = fmt.Sprintf("%x", sha256.Sum256(p))
		}
		return nil
	}))
	return all
}
