package kernels_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/demi-weights/demi/internal/cpu"
	"github.com/demi-weights/demi/internal/guard"
	"github.com/demi-weights/demi/internal/tile"
	"github.com/demi-weights/demi/kernels"
)

// A function is a public one, as a test of its memory sees it: slices of
// elements of so many bytes, first those that it writes, which become results
// of those that it reads.
type function struct {
	name  string
	wrote []int // bytes of an element
	read  []int
	run   func(wrote, read [][]byte) any // figures, if it returns any
}

func functions() []function {
	fs := []function{
		{"F16ToF32", []int{4}, []int{2}, func(w, r [][]byte) any { kernels.F16ToF32(f32(w[0]), u16(r[0])); return nil }},
		{"BF16ToF32", []int{4}, []int{2}, func(w, r [][]byte) any { kernels.BF16ToF32(f32(w[0]), u16(r[0])); return nil }},
		{"F16ToF64", []int{8}, []int{2}, func(w, r [][]byte) any { kernels.F16ToF64(f64(w[0]), u16(r[0])); return nil }},
		{"BF16ToF64", []int{8}, []int{2}, func(w, r [][]byte) any { kernels.BF16ToF64(f64(w[0]), u16(r[0])); return nil }},
		{"F32ToF64", []int{8}, []int{4}, func(w, r [][]byte) any { kernels.F32ToF64(f64(w[0]), f32(r[0])); return nil }},
		{"SplitBF16", []int{1, 1}, []int{2}, func(w, r [][]byte) any { kernels.SplitBF16(w[0], w[1], u16(r[0])); return nil }},
		{"SplitF16", []int{1, 1, 1}, []int{2}, func(w, r [][]byte) any { kernels.SplitF16(w[0], w[1], w[2], u16(r[0])); return nil }},
		{"JoinBF16", []int{2}, []int{1, 1}, func(w, r [][]byte) any { kernels.JoinBF16(u16(w[0]), r[0], r[1]); return nil }},
		{"JoinF16", []int{2}, []int{1, 1, 1}, func(w, r [][]byte) any { kernels.JoinF16(u16(w[0]), r[0], r[1], r[2]); return nil }},
		{"Scan.F32", nil, []int{4}, func(_, r [][]byte) any { var s kernels.Scan; s.F32(f32(r[0])); return s }},
		{"Scan.F64", nil, []int{8}, func(_, r [][]byte) any { var s kernels.Scan; s.F64(f64(r[0])); return s }},
	}
	for _, m := range everyMode() {
		fs = append(fs, withMode(m)...)
	}
	return fs
}

func withMode(m kernels.Mode) []function {
	fs := []function{
		{"F32ToF16", []int{2}, []int{4}, func(w, r [][]byte) any { kernels.F32ToF16(u16(w[0]), f32(r[0]), m); return nil }},
		{"F32ToBF16", []int{2}, []int{4}, func(w, r [][]byte) any { kernels.F32ToBF16(u16(w[0]), f32(r[0]), m); return nil }},
		{"F64ToF16", []int{2}, []int{8}, func(w, r [][]byte) any { kernels.F64ToF16(u16(w[0]), f64(r[0]), m); return nil }},
		{"F64ToBF16", []int{2}, []int{8}, func(w, r [][]byte) any { kernels.F64ToBF16(u16(w[0]), f64(r[0]), m); return nil }},
		{"F64ToF32", []int{4}, []int{8}, func(w, r [][]byte) any { kernels.F64ToF32(f32(w[0]), f64(r[0]), m); return nil }},
		{"F16ToBF16", []int{2}, []int{2}, func(w, r [][]byte) any { kernels.F16ToBF16(u16(w[0]), u16(r[0]), m); return nil }},
		{"BF16ToF16", []int{2}, []int{2}, func(w, r [][]byte) any { kernels.BF16ToF16(u16(w[0]), u16(r[0]), m); return nil }},
		{"DiffF16", nil, []int{4, 2}, func(_, r [][]byte) any { return kernels.DiffF16(f32(r[0]), u16(r[1]), m) }},
		{"DiffBF16", nil, []int{4, 2}, func(_, r [][]byte) any { return kernels.DiffBF16(f32(r[0]), u16(r[1]), m) }},
		{"DiffF32", nil, []int{4, 4}, func(_, r [][]byte) any { return kernels.DiffF32(f32(r[0]), f32(r[1]), m) }},
		{"DiffF64F16", nil, []int{8, 2}, func(_, r [][]byte) any { return kernels.DiffF64F16(f64(r[0]), u16(r[1]), m) }},
		{"DiffF64BF16", nil, []int{8, 2}, func(_, r [][]byte) any { return kernels.DiffF64BF16(f64(r[0]), u16(r[1]), m) }},
		{"DiffF64F32", nil, []int{8, 4}, func(_, r [][]byte) any { return kernels.DiffF64F32(f64(r[0]), f32(r[1]), m) }},
		{"DiffF64", nil, []int{8, 8}, func(_, r [][]byte) any { return kernels.DiffF64(f64(r[0]), f64(r[1]), m) }},
	}
	for i := range fs {
		fs[i].name += " " + modeName(m)
	}
	return fs
}

func u16(b []byte) []uint16  { return tile.Uint16s(b) }
func f32(b []byte) []float32 { return tile.Float32s(b) }
func f64(b []byte) []float64 { return tile.Float64s(b) }

// guardLengths is every length up to twice the largest block, and one more.
const guardLengths = 2*128 + 1

// weights fills b with ordinary numbers of that size, and a few odd ones.
func weights(b []byte, size int) {
	r := rand.New(rand.NewPCG(uint64(size), 1))
	for i := range len(b) / size {
		v := r.NormFloat64() * 0.02
		odd := r.IntN(50) == 0
		switch {
		case odd || size == 1:
			for k := range size {
				b[i*size+k] = byte(r.Uint32())
			}
		case size == 2:
			u16(b)[i] = uint16(fp16.narrow64(v, kernels.Mode{}))
		case size == 4:
			f32(b)[i] = float32(v)
		case size == 8:
			f64(b)[i] = v
		}
	}
}

// A place says where slices lie in memory with guard pages: against the upper
// page, or so many elements above the lower one.
type place struct {
	end bool
	off int
}

func (p place) slice(mem []byte, n, size int) (off int) {
	if p.end {
		return len(mem) - (n+p.off)*size
	}
	return p.off * size
}

const canary = 0xa5

// check runs f on n elements, with the slices that it writes at w and those
// that it reads at r, and returns what it wrote.
func (f function) check(mems [][]byte, source [][]byte, n int, w, r place) (wrote [][]byte, figures any, err error) {
	var outs, ins [][]byte
	for i, size := range f.wrote {
		mem := mems[i]
		for j := range mem {
			mem[j] = canary
		}
		off := w.slice(mem, n, size)
		outs = append(outs, mem[off:off+n*size])
	}
	for i, size := range f.read {
		mem := mems[len(f.wrote)+i]
		off := r.slice(mem, n, size)
		copy(mem[off:off+n*size], source[i])
		ins = append(ins, mem[off:off+n*size])
	}
	figures = f.run(outs, ins)
	for i, size := range f.wrote {
		mem, off := mems[i], w.slice(mems[i], n, size)
		wrote = append(wrote, bytes.Clone(outs[i]))
		rest := append(bytes.Clone(mem[:off]), mem[off+n*size:]...)
		if !bytes.Equal(rest, bytes.Repeat([]byte{canary}, len(rest))) {
			err = fmt.Errorf("wrote outside of slice %d", i)
		}
	}
	return wrote, figures, err
}

// TestGuard runs every public function on every length, against both guard
// pages, and on some lengths at every misalignment, with canaries around what
// is written.
func TestGuard(t *testing.T) {
	lengths := guardLengths
	if short() {
		lengths = 70
	}
	var mems [4][]byte
	for i := range mems {
		mems[i] = guard.New(t, 4096)
	}
	for _, f := range functions() {
		source := f.source(guardLengths)
		for n := range lengths {
			f.everywhere(t, mems[:], source, n)
		}
	}
}

// TestGuardLong runs Scan on lengths for which it has kernels.
func TestGuardLong(t *testing.T) {
	const most = 2048 + 70
	mems := [][]byte{guard.New(t, most*8)}
	for _, f := range functions() {
		if !strings.HasPrefix(f.name, "Scan") {
			continue
		}
		source := f.source(most)
		for n := 2000; n < most; n++ {
			f.everywhere(t, mems, source, n)
		}
	}
}

// source returns n values of each kind that f reads, and some more.
func (f function) source(n int) [][]byte {
	var source [][]byte
	for i, size := range f.read {
		b := tile.NewBuffer((n + 8) * size)
		weights(b, size)
		source = append(source, b[i*size:])
	}
	return source
}

// places returns where to put n elements: against both guard pages; some
// lengths also at every misalignment within a cache line.
func places(n int) (ps [][2]place) {
	end, start := place{true, 0}, place{false, 0}
	ps = append(ps, [2]place{end, end}, [2]place{start, start})
	if n == 63 || n == 129 {
		for off := range 64 {
			ps = append(ps, [2]place{{false, off}, start}, [2]place{start, {false, off}}, [2]place{{false, off}, {true, off}})
		}
	}
	return ps
}

func (f function) everywhere(t *testing.T, mems, source [][]byte, n int) {
	t.Helper()
	limit(t, cpu.Generic)
	want, wantFigures, err := f.check(mems, source, n, place{}, place{})
	if err != nil {
		t.Fatalf("%s, %d elements: %v", f.name, n, err)
	}
	for _, tier := range cpu.Tiers() {
		limit(t, tier)
		for _, p := range places(n) {
			got, figures, err := f.check(mems, source, n, p[0], p[1])
			if err != nil {
				t.Fatalf("%s, %s, %d elements at %v: %v", f.name, tier, n, p, err)
			}
			if fmt.Sprint(figures) != fmt.Sprint(wantFigures) {
				t.Fatalf("%s, %s, %d elements at %v: %+v, want %+v", f.name, tier, n, p, figures, wantFigures)
			}
			for i := range got {
				if !bytes.Equal(got[i], want[i]) {
					t.Fatalf("%s, %s, %d elements at %v: other results", f.name, tier, n, p)
				}
			}
		}
	}
}

// TestInPlace: 16-bit types may be converted in place, whatever the length.
func TestInPlace(t *testing.T) {
	all := every16()
	for _, convert := range []func(dst, src []uint16, m kernels.Mode){kernels.F16ToBF16, kernels.BF16ToF16} {
		for n := 0; n < 1200; n += 1 + n/40 {
			want, got := make([]uint16, n), append([]uint16(nil), all[math.MaxUint16/3:][:n]...)
			convert(want, got, kernels.Mode{})
			convert(got, got, kernels.Mode{})
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("%d elements: %#04x, want %#04x", n, got[i], want[i])
				}
			}
		}
	}
}
