package demi

import "github.com/demi-weights/demi/tensor"

// A Saving is what a 16-bit type would do to the tensors that Exact has looked
// at and left as they are.
type Saving struct {
	Type    tensor.DType `json:"dtype"`
	Bytes   int64        `json:"bytes_saved"`
	Values  int64        `json:"values"`       // of those tensors
	Changed int64        `json:"changed"`      // that do not come back to the bit
	Beyond  int64        `json:"beyond_range"` // at least so many of them are larger than any value of the type
}

// Savings returns, after Decide, what BF16 and F16 would save and change; nil
// if Exact has found something that shrinks, or there is nothing to shrink.
func (p *Plan) Savings() []Saving {
	list := []Saving{{Type: tensor.BF16}, {Type: tensor.F16}}
	for i := range p.Tensors {
		t := &p.Tensors[i]
		if t.Converted() {
			return nil
		}
		s := t.scan
		if s == nil {
			continue
		}
		for k := range list {
			list[k].Bytes += t.In.Size - 2*s.Count
			list[k].Values += s.Count
		}
		list[0].Changed += s.NotBF16
		list[1].Changed += s.NotF16
		for _, n := range s.Exponents[127+16 : 255] {
			list[1].Beyond += n
		}
	}
	if list[0].Values == 0 {
		return nil
	}
	return list
}
