package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// TestSchema holds what verify prints against the schema in docs.
func TestSchema(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../../docs/verify.schema.json")
	require.NoError(t, err)
	charlm := func(name string) string { return filepath.Join("../../testdata/charlm", name) }
	half := filepath.Join(t.TempDir(), "half.demi")
	out, err := demiCommand(t, charlm("model.safetensors"), half, "--dtype", "f16", "--round", "zero", "-q").CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, args := range [][]string{
		{charlm("model.safetensors"), half},
		{charlm("model.safetensors"), half, "--detail", "--rule", "auto", "--min-snr", "90", "--max-abs", "0", "--exact"},
		{charlm("model.gguf"), half, "--map", "auto", "--rule", "auto"},
		{charlm("model.gguf"), charlm("model.safetensors"), "--allow-missing", "blk"},
		{half, charlm("model.safetensors"), "--detail", "--rule", "auto"},
	} {
		text, err := demiCommand(t, append([]string{"verify", "--json"}, args...)...).Output()
		if err != nil {
			require.Equal(t, 1, err.(*exec.ExitError).ExitCode(), "%v", args)
		}
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(document), "%v", args)

		top := document.(map[string]any)
		tensors := top["tensors"].([]any)
		if len(tensors) > 0 {
			tensors[0].(map[string]any)["stats"] = map[string]any{"count": "many"}
			require.Error(t, schema.Validate(document), "a schema that takes anything says nothing")
		}
		delete(top, "violations")
		require.Error(t, schema.Validate(document))
	}
}
