package codec

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
)

// A tcase is a tile and how it should be stored, -1 for whatever is best.
type tcase struct {
	name string
	elem Elem
	src  []byte
	id   int
}

// cases returns tiles of many kinds.
func cases(t testing.TB) (all []tcase) {
	for _, elem := range floats {
		for _, n := range []int{1, 63, 64, 65, 100, 1000, chunk + group + 1, maxElems - 1, maxElems} {
			all = append(all, shapes(n, elem)...)
		}
		for _, h := range histograms() {
			all = append(all, tcase{"exponents: " + h.name, elem, h.tile(elem), -1})
		}
		for i, src := range real(t, charlm).tiles(elem) {
			all = append(all, tcase{fmt.Sprintf("charlm %d", i), elem, src, -1})
		}
		for i, src := range optional(t, "human_mobilefacenet").tiles(elem) {
			if i%8 == 0 {
				all = append(all, tcase{fmt.Sprintf("mobilefacenet %d", i), elem, src, -1})
			}
		}
	}
	return all
}

// shapes returns tiles of n elements: noise, weights, one value, few values,
// almost all zeros, half zeros.
func shapes(n int, elem Elem) []tcase {
	size := elem.size()
	one, few, sparse, half := gaussian(n, elem), gaussian(n, elem), gaussian(n, elem), gaussian(n, elem)
	for i := range n {
		copy(one[i*size:(i+1)*size], one)
		copy(few[i*size:(i+1)*size], few[i*i%5%n*size:])
		if i%50 != 0 {
			clear(sparse[i*size : (i+1)*size])
		}
		if i%3 != 0 {
			clear(half[i*size : (i+1)*size])
		}
	}
	best := -1
	constant, noise := best, best
	if n > 1 {
		constant, noise = int(Constant), int(Raw)
	}
	if n < 8 {
		noise = best
	}
	return []tcase{
		{fmt.Sprintf("noise %d", n), elem, noisy(n, elem), noise},
		{fmt.Sprintf("weights %d", n), elem, gaussian(n, elem), best},
		{fmt.Sprintf("zeros %d", n), elem, make([]byte, n*size), constant},
		{fmt.Sprintf("one value %d", n), elem, one, constant},
		{fmt.Sprintf("few values %d", n), elem, few, best},
		{fmt.Sprintf("sparse %d", n), elem, sparse, best},
		{fmt.Sprintf("half zeros %d", n), elem, half, best},
	}
}

// gaussian returns the stored bytes of n values as weights have them.
func gaussian(n int, elem Elem) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	xs := make([]float32, n)
	for i := range xs {
		xs[i] = float32(r.NormFloat64() * 0.02)
	}
	if elem == Bytes {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(r.NormFloat64() * 50)
		}
		return b
	}
	return stored(xs, elem)
}

// noisy returns n elements of random bits.
func noisy(n int, elem Elem) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 2))
	b := make([]byte, n*elem.size())
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// A counts is a number of elements for each exponent.
type counts struct {
	name   string
	counts [32]int // from exponent 96 on, or from 0 for F16
}

// histograms returns frequencies that are hard on a code of few widths.
func histograms() (all []counts) {
	for _, symbols := range []int{1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 18, 31, 32} {
		equal, falling := counts{name: fmt.Sprintf("%d equal", symbols)}, counts{name: fmt.Sprintf("%d falling", symbols)}
		for s := range symbols {
			equal.counts[s*7%32] = maxElems / 32
			falling.counts[s*5%32] = 1 + maxElems/40>>s
		}
		all = append(all, equal, falling)
	}
	fibonacci := counts{name: "Fibonacci"}
	a, b := 1, 1
	for s := range 22 {
		fibonacci.counts[s] = a
		a, b = b, a+b
	}
	one := counts{name: "one apart"}
	one.counts[3], one.counts[30] = maxElems-1, 1
	return append(all, fibonacci, one)
}

// tile returns a tile with these exponents in random order, the rest noise.
func (c counts) tile(elem Elem) []byte {
	var exps []byte
	for s, n := range c.counts {
		for range n {
			exps = append(exps, byte(s))
		}
	}
	r := rand.New(rand.NewPCG(uint64(len(exps)), 3))
	r.Shuffle(len(exps), func(i, j int) { exps[i], exps[j] = exps[j], exps[i] })
	b := noisy(len(exps), elem)
	for i, e := range exps {
		x := b[i*elem.size() : (i+1)*elem.size()]
		top := binary.LittleEndian.Uint16(x[len(x)-2:])
		if elem == F16 {
			top = top&^0x7c00 | uint16(e)<<10
		} else {
			top = top&^0x7f80 | uint16(96+int(e))<<7
		}
		binary.LittleEndian.PutUint16(x[len(x)-2:], top)
	}
	return b
}
