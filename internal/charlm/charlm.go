// Package charlm runs the small character-level language model of
// testdata/charlm in plain float32, so that tests can ask what a conversion
// did to a model that was really trained. Only tests use it.
package charlm

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Model holds the facts of model.json and the held-out text; the weights stay
// with the caller. It is read-only after Load and safe for concurrent use.
type Model struct {
	Vocab        []string `json:"vocab"` // the token of each id; the first few are special and occur in no text
	Hidden       int      `json:"hidden_size"`
	Layers       int      `json:"layers"`
	Heads        int      `json:"heads"`
	HeadDim      int      `json:"head_dim"`
	Intermediate int      `json:"intermediate_size"`
	Context      int      `json:"context"` // characters in a window
	RopeTheta    float64  `json:"rope_theta"`
	NormEps      float64  `json:"norm_eps"`
	HeldOut      HeldOut  `json:"heldout"`

	windows [][]int // the token ids of the windows that Loss uses
}

// HeldOut is what PyTorch made of the held-out text, in nats per character.
type HeldOut struct {
	Loss          float64 `json:"loss"`           // over all windows
	SubsetStride  int     `json:"subset_stride"`  // the subset is every SubsetStride-th window, from the first
	SubsetWindows int     `json:"subset_windows"` // windows in the subset
	SubsetLoss    float64 `json:"subset_loss"`    // over the subset: what Model.Loss gives for the original weights
}

// Load reads model.json and heldout.txt in dir.
func Load(dir string) (*Model, error) {
	raw, err := os.ReadFile(filepath.Join(dir, "model.json"))
	if err != nil {
		return nil, err
	}
	m := new(Model)
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("charlm: model.json: %w", err)
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(dir, "heldout.txt"))
	if err != nil {
		return nil, err
	}
	m.windows, err = m.cut(text)
	return m, err
}

// check reports facts that the forward pass can't work with.
func (m *Model) check() error {
	if m.Context < 2 || m.Layers < 1 || m.Heads < 1 || m.Intermediate < 1 || m.HeldOut.SubsetStride < 1 {
		return fmt.Errorf("charlm: model.json: a size is missing")
	}
	if m.HeadDim%2 != 0 || m.Heads*m.HeadDim != m.Hidden {
		return fmt.Errorf("charlm: model.json: %d heads of %d don't make a hidden size of %d", m.Heads, m.HeadDim, m.Hidden)
	}
	return nil
}

// cut turns text into token ids and keeps every SubsetStride-th window.
func (m *Model) cut(text []byte) ([][]int, error) {
	id := make(map[string]int, len(m.Vocab))
	for i, token := range m.Vocab {
		id[token] = i
	}
	var windows [][]int
	for start := 0; start+m.Context <= len(text); start += m.Context * m.HeldOut.SubsetStride {
		window := make([]int, m.Context)
		for i := range window {
			token, ok := id[string(text[start+i])]
			if !ok {
				return nil, fmt.Errorf("charlm: heldout.txt: offset %d: %q is not in the vocabulary", start+i, text[start+i])
			}
			window[i] = token
		}
		windows = append(windows, window)
	}
	if len(windows) != m.HeldOut.SubsetWindows {
		return nil, fmt.Errorf("charlm: heldout.txt: %d windows in the subset, model.json says %d", len(windows), m.HeldOut.SubsetWindows)
	}
	return windows, nil
}
