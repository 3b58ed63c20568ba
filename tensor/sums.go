package tensor

import "context"

// A Summed is a Source of a container that has checksums which reading a tensor
// does not compare, such as the CRC-32 of each entry of a zip archive.
type Summed interface {
	Source
	// Sums returns the sums of all that the data of tensor i are read from.
	// whole says that there is one and that it is that of exactly the stored
	// bytes of the tensor, of which there are some: who reads them all can do
	// the sum.
	Sums(i int) (sums []Sum, whole bool)
	// OtherSums returns those of what no tensor lies in, such as a header.
	OtherSums() []Sum
}

// A Sum is a CRC-32, with the polynomial of IEEE 802.3, of a run of bytes that a
// container has. Two are equal (==) if they are that of the same run. Its methods may be
// called by several goroutines at once.
type Sum interface {
	// Compare compares it with crc, that of the bytes as they were read. The error
	// is ErrFormat with the place.
	Compare(crc uint32) error
	// Read reads the bytes and compares. It ends when ctx does, with its error.
	Read(ctx context.Context) error
}

// Sums is that of a Source which is Summed; others have none.
func Sums(src Source, i int) (sums []Sum, whole bool) {
	if s, is := src.(Summed); is {
		return s.Sums(i)
	}
	return nil, false
}

// OtherSums is that of a Source which is Summed; others have none.
func OtherSums(src Source) []Sum {
	if s, is := src.(Summed); is {
		return s.OtherSums()
	}
	return nil
}

// Sums makes a join of Summed sources Summed.
func (j *joined) Sums(i int) (sums []Sum, whole bool) {
	s, k := j.at(i)
	return Sums(s, k)
}

// OtherSums returns those of all sources.
func (j *joined) OtherSums() (sums []Sum) {
	for _, s := range j.sources {
		sums = append(sums, OtherSums(s)...)
	}
	return sums
}
