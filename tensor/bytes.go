package tensor

// A Mapped is a Source that may have tensors in memory, such as a file that is
// mapped.
type Mapped interface {
	Source
	// Bytes returns the stored bytes of tensor i, little-endian and row-major,
	// without a copy; ok is false, and the rest nil, if they do not lie in
	// memory like that. They are not to be written to, and are valid until
	// release is called, once or more, also if the Source is closed before.
	// A file that is made shorter meanwhile can end the program.
	Bytes(i int) (p []byte, release func(), ok bool)
}

// Bytes is that of a Source which is Mapped; for others, ok is false.
func Bytes(src Source, i int) (p []byte, release func(), ok bool) {
	if m, is := src.(Mapped); is {
		return m.Bytes(i)
	}
	return nil, nil, false
}

// Bytes makes a join of Mapped sources Mapped.
func (j *joined) Bytes(i int) (p []byte, release func(), ok bool) {
	s, k := j.at(i)
	return Bytes(s, k)
}
