//go:build !race

package main

const overhead = 1
