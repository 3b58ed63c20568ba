package doctor_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/doctor"
)

// TestDocs: the guide has every code as it is, and each is found by a test.
func TestDocs(t *testing.T) {
	guide, err := os.ReadFile("../docs/doctor.md")
	require.NoError(t, err)
	for _, c := range doctor.Codes() {
		require.Contains(t, string(guide), fmt.Sprintf("| `%s` | %s | %s | %s | ", c.Code, c.Severity, c.Means, c.Fix))
	}
}
