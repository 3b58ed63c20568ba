package demi_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi"
	"github.com/demi-weights/demi/kernels"
	"github.com/demi-weights/demi/tensor"
	"github.com/demi-weights/demi/verify"
)

// A torchView is a tensor of FP32 in a storage, all in elements.
type torchView struct {
	name                 string
	store, numel, offset int
	shape, stride        []int
}

// torchFile is a file as torch.save writes one: storages and a pickle of views.
func torchFile(t testing.TB, stores [][]byte, views []torchView) []byte {
	t.Helper()
	entries := [][2]string{{"data.pkl", torchPickle(views)}}
	for i, s := range stores {
		entries = append(entries, [2]string{fmt.Sprintf("data/%d", i), string(s)})
	}
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range append(entries, [2]string{"version", "3\n"}, [2]string{"note", "unread"}) {
		n := uint64(len(e[1]))
		to, err := w.CreateRaw(&zip.FileHeader{Name: "archive/" + e[0], CRC32: crc32.ChecksumIEEE([]byte(e[1])), CompressedSize64: n, UncompressedSize64: n})
		require.NoError(t, err)
		_, err = to.Write([]byte(e[1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func torchPickle(views []torchView) string {
	text := func(s string) string { return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s }
	nums := func(list ...int) (s string) {
		for _, n := range list {
			s += "J" + string(binary.LittleEndian.AppendUint32(nil, uint32(n)))
		}
		return s
	}
	s := "\x80\x02}("
	for _, v := range views {
		s += text(v.name) + "ctorch._utils\n_rebuild_tensor_v2\n(" +
			"(" + text("storage") + "ctorch\nFloatStorage\n" + text(fmt.Sprint(v.store)) + text("cpu") + nums(v.numel) + "tQ" +
			nums(v.offset) + "(" + nums(v.shape...) + "t(" + nums(v.stride...) + "t" + "\x89ccollections\nOrderedDict\n(tRtR"
	}
	return s + "u."
}

// views of four storages: whole and tied, both whole, and a view of the same;
// two that divide one; one that is transposed; one of a single tile.
var torchViews = []torchView{
	{"view", 0, 300_001, 5, []int{1000}, []int{2}},
	{"whole", 0, 300_001, 0, []int{300_001}, []int{1}},
	{"tied", 0, 300_001, 0, []int{300_001}, []int{1}},
	{"left", 1, 150_000, 0, []int{75_000}, []int{1}},
	{"right", 1, 150_000, 75_000, []int{750, 100}, []int{100, 1}},
	{"transposed", 2, 60_000, 0, []int{200, 300}, []int{1, 200}},
	{"last", 3, 7, 0, []int{7, 1}, []int{1, 1}},
}

// writeTorch writes the file of torchViews, as it is if flip is nil, else with a
// bit that changed. It returns the place of that.
func writeTorch(t testing.TB, path string, flip []byte, seed uint64) int {
	t.Helper()
	var stores [][]byte
	for k, n := range []int{300_001, 150_000, 60_000, 7} {
		stores = append(stores, f32Bytes(weights(n, seed+uint64(k))))
	}
	file := torchFile(t, stores, torchViews)
	at := -1
	if flip != nil {
		at = bytes.Index(file, flip)
		require.Positive(t, at)
		file[at] ^= 1 // of a mantissa: the value stays finite
	}
	require.NoError(t, os.WriteFile(path, file, 0o666))
	return at
}

// places are what the bits that change lie in, with words of the error for each,
// and whether tensors of floats lie there.
func torchPlaces() map[string]struct {
	bytes, says string
	values      bool
} {
	at := func(store, elem int) string {
		n := []int{300_001, 150_000, 60_000, 7}[store]
		return string(f32Bytes(weights(n, 1+uint64(store)))[elem*4:][:min(64, (n-elem)*4)])
	}
	type place = struct {
		bytes, says string
		values      bool
	}
	return map[string]place{
		"first tile of a whole":  {at(0, 1), `tensor "view": byte [0-9]+: invalid file: zip entry "archive/data/0" of 1200004 bytes has the CRC-32 [0-9a-f]{8}, its directory says`, true},
		"last bytes of a whole":  {at(0, 300_000) + "PK", `zip entry "archive/data/0"`, true},
		"a part of two":          {at(1, 100_000), `tensor "left": byte [0-9]+: invalid file: zip entry "archive/data/1"`, true},
		"transposed":             {at(2, 31_000), `tensor "transposed": .*"archive/data/2"`, true},
		"one tile":               {at(3, 0), `tensor "last": .*"archive/data/3"`, true},
		"what no tensor lies in": {"unread", `zip entry "archive/note" of 6 bytes`, false},
	}
}

// flipped calls f with a file for each of torchPlaces.
func flipped(t *testing.T, dir string, f func(t *testing.T, says *regexp.Regexp)) {
	for name, p := range torchPlaces() {
		t.Run(name, func(t *testing.T) {
			writeTorch(t, filepath.Join(dir, "pytorch_model.bin"), []byte(p.bytes), 1)
			f(t, regexp.MustCompile(p.says))
		})
	}
}

func requireSumError(t *testing.T, err error, says *regexp.Regexp) {
	t.Helper()
	require.ErrorIs(t, err, tensor.ErrFormat)
	require.Regexp(t, says, err.Error())
}

// TestSumsConvert: whatever lies in it, an entry with a bit that changed is found,
// with the place that its directory gives, and no output is left, be it a file, a
// set, or that of a pipeline.
func TestSumsConvert(t *testing.T) {
	root := t.TempDir()
	unet, out := filepath.Join(root, "pipe", "unet"), filepath.Join(root, "out")
	require.NoError(t, os.MkdirAll(unet, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(root, "pipe", "model_index.json"), []byte(`{"unet": ["d", "U"]}`), 0o666))
	bf16 := demi.Options{Target: demi.To(tensor.BF16)}
	small := &demi.CreateOptions{MaxShard: 500_000}
	to := map[string]struct {
		src, dst string
		o        demi.Options
		create   *demi.CreateOptions
	}{
		"file":     {unet, out + ".safetensors", bf16, nil},
		"bytes":    {unet, out + ".demi", demi.Options{Target: demi.Keep, Format: demi.Demi}, nil},
		"shards":   {unet, out, bf16, small},
		"pipeline": {filepath.Join(root, "pipe"), out, bf16, small},
	}
	writeTorch(t, filepath.Join(unet, "pytorch_model.bin"), nil, 1)
	for name, c := range to {
		_, err := convertFile(t, c.src, c.dst, c.o, c.create)
		require.NoError(t, err, name)
		require.NoError(t, os.RemoveAll(c.dst))
	}
	flipped(t, unet, func(t *testing.T, says *regexp.Regexp) {
		for name, c := range to {
			_, err := convertFile(t, c.src, c.dst, c.o, c.create)
			require.Error(t, err, name)
			requireSumError(t, err, says)
			require.Equal(t, []string{"pipe"}, names(t, root), name)
		}
		require.Error(t, open(t, unet).CheckSums(t.Context()))
		require.Error(t, open(t, filepath.Dir(unet)).CheckSums(t.Context()))
	})
}

// TestSumsShard: a shard that is not the first.
func TestSumsShard(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(torchDir, "torch-2.6/set"))))
	path := filepath.Join(dir, "pytorch_model-00002-of-00002.bin")
	x, ok := open(t, dir).Tensor("layers.30.w")
	require.True(t, ok)
	_, at := x.Place()
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	file[at] ^= 1
	require.NoError(t, os.WriteFile(path, file, 0o666))
	says := regexp.MustCompile(`00002-of-00002.bin: tensor "layers.30.w": byte ` + fmt.Sprint(at))
	_, err = convertFile(t, dir, filepath.Join(t.TempDir(), "x.safetensors"), demi.Options{}, nil)
	requireSumError(t, err, says)
	_, err = demi.Scan(t.Context(), open(t, dir), nil)
	requireSumError(t, err, says)
}

// TestSumsScan: a scan, advice and a comparison find what a conversion finds, but
// for entries that only tensors without values lie in.
func TestSumsScan(t *testing.T) {
	dir, whole := t.TempDir(), t.TempDir()
	writeTorch(t, filepath.Join(whole, "pytorch_model.bin"), nil, 1)
	good := open(t, whole)
	_, err := demi.Scan(t.Context(), good, nil)
	require.NoError(t, err)
	_, err = verify.Measure(t.Context(), good.Source(), good.Source(), nil)
	require.NoError(t, err)
	flipped(t, dir, func(t *testing.T, says *regexp.Regexp) {
		bad := open(t, dir)
		_, err := demi.Scan(t.Context(), bad, nil)
		requireSumError(t, err, says)
		_, err = demi.Advise(t.Context(), bad, demi.Options{}, nil)
		requireSumError(t, err, says)
		renamed, err := verify.Rename(bad.Source(), nil)
		require.NoError(t, err)
		for _, src := range []tensor.Source{bad.Source(), bad.Untied(), renamed} {
			_, err = verify.Measure(t.Context(), src, good.Source(), nil)
			requireSumError(t, err, says)
			_, err = verify.Measure(t.Context(), good.Source(), src, nil)
			requireSumError(t, err, says)
		}
		lenient, err := demi.Open(dir, &demi.OpenOptions{Lenient: true})
		require.NoError(t, err)
		defer lenient.Close()
		_, err = demi.Scan(t.Context(), lenient, nil)
		require.NoError(t, err)
		_, err = verify.Measure(t.Context(), lenient.Source(), good.Source(), nil)
		require.NoError(t, err)
	})
}

// TestSumsURL: behind a URL, entries of whole tensors are summed up as well, and
// what is wrong elsewhere is not seen, for nothing is read for a sum alone.
func TestSumsURL(t *testing.T) {
	dir := t.TempDir()
	h := newHub(t, dir)
	to := filepath.Join(t.TempDir(), "x.safetensors")
	flipped(t, dir, func(t *testing.T, says *regexp.Regexp) {
		_, err := convertAs(t, openURL(t, h.URL+"/pytorch_model.bin"), to, demi.Options{Drop: []*regexp.Regexp{regexp.MustCompile("^(view|tied|transposed)$")}}, nil)
		if regexp.MustCompile("note|left|transposed").MatchString(says.String()) {
			require.NoError(t, err)
			require.NoError(t, os.Remove(to))
		} else {
			require.ErrorIs(t, err, tensor.ErrFormat)
			require.ErrorContains(t, err, "CRC-32")
		}
	})
}

// A counted file system counts the bytes that are read.
type counted struct {
	fs.FS
	n *atomic.Int64
}

func (c counted) Open(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	return countedFile{f, c.n}, err
}

type countedFile struct {
	fs.File
	n *atomic.Int64
}

func (f countedFile) ReadAt(p []byte, off int64) (int, error) {
	f.n.Add(int64(len(p)))
	return f.File.(io.ReaderAt).ReadAt(p, off)
}

// TestSumsReads: nothing is read for its sum but the entries of views that are
// converted, once, and records: not those of tensors that are left out, whatever
// is wrong with them.
func TestSumsReads(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		drop string
		most int64 // bytes of storages, as elements, that are read
	}{
		{"^(view|tied|left|right|transposed)$", 300_001 + 7},
		{"^(view|left|right|transposed)$", 2*300_001 + 7},
		{"^(view|whole|tied|transposed)$", 2*150_000 + 7}, // once more for the sum
		{"^(view|whole|tied|transposed|left)$", 75_000 + 150_000 + 7},
	} {
		writeTorch(t, filepath.Join(dir, "pytorch_model.bin"), f32Bytes(weights(60_000, 3)[:8]), 1)
		n := &atomic.Int64{}
		src, err := demi.OpenFS(counted{os.DirFS(dir), n}, "pytorch_model.bin", nil)
		require.NoError(t, err)
		n.Store(0)
		_, _, err = convert(t, src, demi.Options{Target: demi.To(tensor.BF16), Drop: []*regexp.Regexp{regexp.MustCompile(c.drop)}}, nil)
		require.NoError(t, err, "the storage that is wrong is left out")
		require.GreaterOrEqual(t, n.Load(), 4*c.most)
		require.Less(t, n.Load(), 4*c.most+4096, c.drop)
		require.NoError(t, src.Close())
	}
}

// TestSumsRecheck: reading a source again that some tensors were left out of goes
// by the sums of the others.
func TestSumsRecheck(t *testing.T) {
	dir, to := t.TempDir(), filepath.Join(t.TempDir(), "x.safetensors")
	path := filepath.Join(dir, "pytorch_model.bin")
	writeTorch(t, path, nil, 1)
	records, err := convertFile(t, dir, to, demi.Options{Drop: []*regexp.Regexp{regexp.MustCompile("^(view|whole)$")}}, nil)
	require.NoError(t, err)
	problems, err := demi.Recheck(t.Context(), open(t, dir), open(t, to), kernels.NearestEven, records, nil)
	require.NoError(t, err)
	require.Empty(t, problems)
	places := torchPlaces()
	writeTorch(t, path, []byte(places["a part of two"].bytes), 1)
	_, err = demi.Recheck(t.Context(), open(t, dir), open(t, to), kernels.NearestEven, records, nil)
	requireSumError(t, err, regexp.MustCompile(`tensor "left"`))
}
