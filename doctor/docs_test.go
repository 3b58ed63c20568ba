package doctor_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/demi-weights/demi/doctor"
)

// TestDocs: the guide has every code as it is, and each is found by a test.
func TestDocs(t *testing.T) {
	guide, err := os.ReadFile("../docs/doctor.md")
	require.NoError(t, err)
	tested := "staging-busy too-large unreadable" // TestStagingBusy, TestHugeFiles, TestPipes
	for _, f := range faults() {
		tested += " " + strings.ReplaceAll(f.want, "!", "")
	}
	for _, c := range doctor.Codes() {
		require.Regexp(t, `(^|[ /])`+c.Code+`( |$)`, tested)
		require.Contains(t, string(guide), fmt.Sprintf("| `%s` | %s | %s | %s | ", c.Code, c.Severity, c.Means, c.Fix))
	}
}
