//go:build race

package main

// overhead is what the race detector makes of the memory of a program.
const overhead = 6
