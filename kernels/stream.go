package kernels

// A Stream is a sequence of random bits for the elements of one tensor, in
// which element i finds its own bits without those before it: a function of
// the stream and i alone, the same on every machine and for ever.
//
// The bits come from integer mixers that are public domain: the finaliser of
// SplitMix64 (Sebastiano Vigna, https://prng.di.unimi.it/splitmix64.c) makes a
// key of 64 bits for every 2^20 elements, and lowbias32 (Chris Wellons,
// https://github.com/skeeto/hash-prospector) turns the place of an element
// within them, combined with the key, into draws of 32 bits.
type Stream uint64

// NewStream returns the stream of the tensor of that name under a seed chosen
// by the user. Tensors of different names get streams of their own.
func NewStream(seed uint64, name string) Stream {
	h := uint64(0xcbf29ce484222325) // FNV-1a
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	return Stream(mix64(seed ^ mix64(h)))
}

// segment is the number of elements that share a key.
const (
	segmentBits = 20
	segment     = 1 << segmentBits
)

// keys returns the key of the elements from segment<<20 to below
// (segment+1)<<20.
func (s Stream) keys(segment int64) (k0, k1 uint32) {
	k := mix64(uint64(s) + uint64(segment)*0x9e3779b97f4a7c15)
	return uint32(k), uint32(k >> 32)
}

// draws are the random bits of a segment. Elements are counted within it.
type draws struct{ k0, k1 uint32 }

func (d draws) draw(c uint32) uint32 { return lowbias32(c^d.k0) ^ d.k1 }

// u16 returns the 16 bits of element j: half of a draw, which it shares with
// the element 16 before or after it, so that a vector of draws is a vector of
// bits for the lower halves and another for the upper halves.
func (d draws) u16(j uint32) uint32 {
	h := d.draw(16*(j/32) + j%16)
	return h >> (j & 16) & 0xffff
}

// u32 and u64 count their draws elsewhere, so that they owe nothing to u16.
func (d draws) u32(j uint32) uint32 { return d.draw(j | 0x80000000) }

func (d draws) u64(j uint32) uint64 {
	return uint64(d.u32(j))<<32 | uint64(d.draw(j|0xc0000000))
}

// segments calls f for each run of the n elements from first on that lies in
// one segment: elements lo to hi, the first of which is number j of it.
func (s Stream) segments(first int64, n int, f func(d draws, j uint32, lo, hi int)) {
	for lo := 0; lo < n; {
		i := first + int64(lo)
		j := i & (segment - 1)
		hi := lo + int(min(int64(n-lo), segment-j))
		k0, k1 := s.keys(i >> segmentBits)
		f(draws{k0, k1}, uint32(j), lo, hi)
		lo = hi
	}
}

func mix64(z uint64) uint64 {
	z ^= z >> 30
	z *= 0xbf58476d1ce4e5b9
	z ^= z >> 27
	z *= 0x94d049bb133111eb
	return z ^ z>>31
}

func lowbias32(h uint32) uint32 {
	h ^= h >> 16
	h *= 0x7feb352d
	h ^= h >> 15
	h *= 0x846ca68b
	return h ^ h>>16
}
