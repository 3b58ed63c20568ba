package charlm

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const dataDir = "../../testdata/charlm"

// load returns the model and its original weights, read by a parser of a few
// lines so that the test rests on none of the project's readers.
func load(t testing.TB) (*Model, map[string][]float32) {
	t.Helper()
	m, err := Load(dataDir)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(dataDir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint64(file)
	header, data := file[8:8+n], file[8+n:]
	var entries map[string]struct {
		DType   string `json:"dtype"`
		Offsets [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(header, &entries); err != nil {
		t.Fatal(err)
	}
	delete(entries, "__metadata__")
	tensors := make(map[string][]float32, len(entries))
	for name, e := range entries {
		if e.DType != "F32" {
			t.Fatalf("%s is %s", name, e.DType)
		}
		tensors[name] = floats(data[e.Offsets[0]:e.Offsets[1]])
	}
	return m, tensors
}

// floats reads little-endian float32 values.
func floats(raw []byte) []float32 {
	out := make([]float32, len(raw)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return out
}

// from serves tensors from a map.
func from(tensors map[string][]float32) func(string) ([]float32, error) {
	return func(name string) ([]float32, error) { return tensors[name], nil }
}

// mustLoss is Loss without an error.
func mustLoss(t *testing.T, m *Model, weight func(string) ([]float32, error)) float64 {
	t.Helper()
	loss, err := m.Loss(weight)
	if err != nil {
		t.Fatal(err)
	}
	return loss
}

func TestLossEqualsPyTorch(t *testing.T) {
	m, tensors := load(t)
	got := mustLoss(t, m, from(tensors))
	t.Logf("loss %.7f, PyTorch %.7f", got, m.HeldOut.SubsetLoss)
	if math.Abs(got-m.HeldOut.SubsetLoss) > 1e-4 {
		t.Errorf("loss %v, PyTorch's is %v", got, m.HeldOut.SubsetLoss)
	}
	if untrained := math.Log(float64(len(m.Vocab))); got > untrained/4 {
		t.Errorf("loss %v is not that of a trained model (guessing gives %v)", got, untrained)
	}
}

func TestLossSeesDamage(t *testing.T) {
	m, tensors := load(t)
	m.windows = m.windows[:4]
	good := mustLoss(t, m, from(tensors))
	damage := []struct {
		name  string
		hits  string // part of the names of the tensors hit
		do    func([]float32)
		worse float64 // by at least so many nats
	}{
		{"all zero", "", func(v []float32) { clear(v) }, 2},
		{"all reversed", "", reverse, 2},
		{"one layer's keys reversed", "layers.1.self_attn.k_proj", reverse, 0.02},
		{"one norm doubled", "layers.0.input_layernorm", func(v []float32) { scale(v, 2) }, 0.02},
		{"low 20 bits cut", "", func(v []float32) { mask(v, 20) }, 0.002},
	}
	for _, d := range damage {
		t.Run(d.name, func(t *testing.T) {
			bad := mustLoss(t, m, func(name string) ([]float32, error) {
				v := append([]float32(nil), tensors[name]...)
				if strings.Contains(name, d.hits) {
					d.do(v)
				}
				return v, nil
			})
			t.Logf("loss %.4f, good %.4f", bad, good)
			if !(bad > good+d.worse) {
				t.Errorf("loss %v, only %v worse", bad, bad-good)
			}
		})
	}
}

func reverse(v []float32) {
	for i, j := 0, len(v)-1; i < j; i, j = i+1, j-1 {
		v[i], v[j] = v[j], v[i]
	}
}

func scale(v []float32, by float32) {
	for i := range v {
		v[i] *= by
	}
}

// mask clears the lowest bits of each value.
func mask(v []float32, bits int) {
	for i := range v {
		v[i] = math.Float32frombits(math.Float32bits(v[i]) >> bits << bits)
	}
}

func TestLossIsTheSameOnOneProcessor(t *testing.T) {
	m, tensors := load(t)
	m.windows = m.windows[:4]
	many := mustLoss(t, m, from(tensors))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if one := mustLoss(t, m, from(tensors)); one != many {
		t.Errorf("loss %v on one processor, %v on several", one, many)
	}
}

func TestLossRefusesBadTensors(t *testing.T) {
	m, tensors := load(t)
	const name = "model.layers.2.mlp.up_proj.weight"
	gone := errors.New("gone")
	_, err := m.Loss(func(n string) ([]float32, error) {
		if n == name {
			return nil, gone
		}
		return tensors[n], nil
	})
	if !errors.Is(err, gone) || !strings.Contains(err.Error(), name) {
		t.Errorf("error %v, want one that wraps %v and names %s", err, gone, name)
	}
	tensors[name] = tensors[name][1:]
	if _, err := m.Loss(from(tensors)); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("error %v for a short tensor", err)
	}
}

func TestLoadRefusesBadFiles(t *testing.T) {
	const good = `{"vocab":["<unk>","a","b"],"hidden_size":4,"layers":1,"heads":1,"head_dim":4,"intermediate_size":4,"context":2,
		"heldout":{"subset_stride":1,"subset_windows":2}}`
	for _, c := range []struct{ name, facts, text, want string }{
		{"good", good, "abba", ""},
		{"not JSON", "{", "abba", "model.json"},
		{"no sizes", "{}", "abba", "missing"},
		{"odd heads", strings.Replace(good, `"heads":1`, `"heads":2`, 1), "abba", "2 heads of 4"},
		{"foreign character", good, "abca", "offset 2"},
		{"short text", good, "ab", "1 windows"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "model.json"), c.facts)
			write(t, filepath.Join(dir, "heldout.txt"), c.text)
			_, err := Load(dir)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func TestMatmulOddSizes(t *testing.T) {
	const n = 5
	for rows := 1; rows <= 9; rows++ {
		for outs := 1; outs <= 5; outs++ {
			x, w, dst := ramp(rows*n, 3), ramp(outs*n, 7), make([]float32, rows*outs)
			matmul(dst, x, w, n)
			for i, got := range dst {
				if want := dot(x[i/outs*n:][:n], w[i%outs*n:][:n]); got != want {
					t.Errorf("%d by %d: element %d is %v, want %v", rows, outs, i, got, want)
				}
			}
		}
	}
}

// ramp returns n small whole numbers.
func ramp(n, step int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(i*step%11 - 5)
	}
	return out
}

func BenchmarkLoss(b *testing.B) {
	m, tensors := load(b)
	for b.Loop() {
		if _, err := m.Loss(from(tensors)); err != nil {
			b.Fatal(err)
		}
	}
}
