//go:build race

package safetensors_test

const raceEnabled = true
