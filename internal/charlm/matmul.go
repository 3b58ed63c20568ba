package charlm

// matmul sets dst[t][o] to the sum over i of x[t][i]*w[o][i], where rows of x
// and w have n elements. Rows go four by two where they can, to keep the sums
// in registers.
func matmul(dst, x, w []float32, n int) {
	rows, outs := len(x)/n, len(w)/n
	for o := 0; o < outs; o += 2 {
		for t := 0; t < rows; t += 4 {
			if t+4 > rows || o+2 > outs {
				matmulEdge(dst, x, w, n, t, o)
				continue
			}
			s := dot4x2(x[t*n:(t+4)*n], w[o*n:(o+2)*n], n)
			for j, pair := range s {
				dst[(t+j)*outs+o], dst[(t+j)*outs+o+1] = pair[0], pair[1]
			}
		}
	}
}

// matmulEdge does up to four rows from t by two from o, one at a time.
func matmulEdge(dst, x, w []float32, n, t, o int) {
	rows, outs := len(x)/n, len(w)/n
	for j := t; j < min(t+4, rows); j++ {
		for k := o; k < min(o+2, outs); k++ {
			dst[j*outs+k] = dot(x[j*n:(j+1)*n], w[k*n:(k+1)*n])
		}
	}
}

// dot4x2 returns the products of four rows of x with two rows of w.
func dot4x2(x, w []float32, n int) [4][2]float32 {
	x0, x1, x2, x3 := x[:n], x[n:][:n], x[2*n:][:n], x[3*n:][:n]
	w0, w1 := w[:n], w[n:][:n]
	var a0, a1, b0, b1, c0, c1, d0, d1 float32
	for i, u := range w0 {
		v := w1[i]
		a, b, c, d := x0[i], x1[i], x2[i], x3[i]
		a0, a1 = a0+a*u, a1+a*v
		b0, b1 = b0+b*u, b1+b*v
		c0, c1 = c0+c*u, c1+c*v
		d0, d1 = d0+d*u, d1+d*v
	}
	return [4][2]float32{{a0, a1}, {b0, b1}, {c0, c1}, {d0, d1}}
}

// dot returns the sum of products of two rows of one length.
func dot(a, b []float32) float32 {
	b = b[:len(a)]
	sum := float32(0)
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}
