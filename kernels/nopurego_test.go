//go:build !purego

package kernels

const puregoTag = false
