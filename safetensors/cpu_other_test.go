//go:build !unix

package safetensors_test

import "time"

var began = time.Now()

// cpuTime is the time itself where the system does not tell.
func cpuTime() time.Duration { return time.Since(began) }
