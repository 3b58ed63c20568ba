package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

// TestSchemaOfVerify holds what verify prints against the schema in docs.
func TestSchemaOfVerify(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("../../docs/schema/verify.schema.json")
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

// closedSchemas returns the schemas in docs by what comes before ".schema.json",
// so changed that they take no field that they do not name: a schema that leaves
// out half of a document describes nothing.
func closedSchemas(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	files, err := filepath.Glob("../../docs/schema/*.schema.json")
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err, file)
		closeObjects(schema)
		require.NoError(t, compiler.AddResource("docs:///"+filepath.Base(file), schema))
	}
	schemas := map[string]*jsonschema.Schema{}
	for _, file := range files {
		name := filepath.Base(file)
		schema, err := compiler.Compile("docs:///" + name)
		require.NoError(t, err)
		schemas[name[:len(name)-len(".schema.json")]] = schema
	}
	return schemas
}

func closeObjects(schema any) {
	switch x := schema.(type) {
	case map[string]any:
		for _, v := range x {
			closeObjects(v)
		}
		if _, ok := x["properties"].(map[string]any); ok {
			x["additionalProperties"] = false
		}
	case []any:
		for _, v := range x {
			closeObjects(v)
		}
	}
}

// TestSchemas holds what every command prints against the schemas in docs.
func TestSchemas(t *testing.T) {
	schemas := closedSchemas(t)
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	model := filepath.Join("../../testdata/charlm", "model.safetensors")
	gguf := filepath.Join("../../testdata/charlm", "model.gguf")
	sharded := filepath.Join("../../testdata/charlm", "sharded")
	quantised := filepath.Join("../../testdata/dequant", "quantised.gguf")
	broken := filepath.Join("../../testdata/safetensors", "bad_overlap.safetensors")
	require.NoError(t, os.CopyFS(in("unindexed"), os.DirFS(sharded)))
	require.NoError(t, os.Remove(in("unindexed/model.safetensors.index.json")))
	jobs := model + "\t" + in("job1.safetensors") + "\n# a comment\n" + in("nothing") + "\t" + in("job2") + "\n"
	require.NoError(t, os.WriteFile(in("jobs.tsv"), []byte(jobs), 0o666))
	for _, c := range []struct {
		schema string
		code   int
		args   []string
	}{
		{"convert", 0, []string{model, in("bf16.safetensors"), "--dtype", "bf16", "--round", "stochastic", "--seed", "7", "--subnormals", "flush", "--verify"}},
		{"convert", 0, []string{gguf, in("auto.gguf"), "--dtype", "auto", "--keep", "norm=f32", "--target-size", "60%"}},
		{"convert", 0, []string{sharded, in("dir"), "--max-shard-size", "600kB"}},
		{"convert", 0, []string{model, in("keep.demi"), "--dtype", "keep"}},
		{"convert", 0, []string{in("keep.demi"), in("back"), "--restore"}},
		{"convert", 0, []string{model, in("f16.safetensors"), "--dtype", "f16", "--if-exists", "skip"}},
		{"convert", 0, []string{model, in("f16.safetensors"), "--dtype", "f16", "--if-exists", "skip"}},
		{"plan", 0, []string{"plan", model, in("x.safetensors"), "--no-scan", "--order", "canonical", "--add-format=false"}},
		{"plan", 0, []string{sharded, in("x"), "--dry-run", "--preset", "llm", "--dtype", "bf16", "--keep-split"}},
		{"plan", 0, []string{"plan", in("keep.demi"), in("x.gguf"), "--container-only", "--on-overflow", "keep", "--on-nan", "error"}},
		{"plan", 0, []string{"plan", quantised, in("x.gguf"), "--dtype", "bf16", "--dequantize"}},
		{"convert", 0, []string{quantised, in("values.gguf"), "--dtype", "bf16", "--dequantize=all"}},
		{"inspect", 0, []string{"inspect", model}},
		{"inspect", 0, []string{"inspect", gguf, "--scan"}},
		{"inspect", 0, []string{"inspect", in("keep.demi"), "--bytes"}},
		{"inspect", 0, []string{"inspect", sharded}},
		{"advise", 0, []string{"advise", model, "--target-size", "1kB"}},
		{"advise", 0, []string{"plan", gguf, in("x.gguf"), "--explain"}},
		{"verify", 1, []string{"verify", model, in("bf16.safetensors"), "--detail", "--rule", "auto", "--exact"}},
		{"verify", 0, []string{"verify", model, in("keep.demi")}},
		{"verify-store", 0, []string{"verify", in("keep.demi")}},
		{"doctor", 0, []string{"doctor", sharded}},
		{"doctor", 1, []string{"doctor", broken}},
		{"doctor", 1, []string{"doctor", in("unindexed")}},
		{"doctor", 0, []string{"doctor", "--fix", in("unindexed")}},
		{"tasks", 0, []string{"plan", model, in("tasks"), "--dtype", "bf16", "--tasks", "2", "-o", in("tasks.json")}},
		{"run", 0, []string{"run", in("tasks.json"), "--index", "0"}},
		{"run", 0, []string{"run", in("tasks.json"), "--index", "1"}},
		{"merge", 0, []string{"merge", in("tasks.json"), "--verify"}},
		{"tasks", 3, []string{"plan", "--list", in("jobs.tsv"), "--tasks", "1", "-o", in("scan.json")}},
		{"tasks", 0, []string{"plan", gguf, in("lacks.gguf"), "--dtype", "bf16", "--tasks", "3", "-o", in("lacks.json")}},
		{"merge", 4, []string{"merge", in("lacks.json")}},
		{"run", 0, []string{"run", in("scan.json"), "--index", "0", "--scan"}},
		{"failure", 2, []string{"run", in("scan.json"), "--index", "0"}},
		{"failure", 2, []string{model}},
		{"failure", 3, []string{"inspect", broken}},
		{"failure", 5, []string{model, in("keep.demi")}},
	} {
		cmd := demiCommand(t, append([]string{"--json"}, c.args...)...)
		text, _ := cmd.Output()
		require.Equal(t, c.code, cmd.ProcessState.ExitCode(), "%v: %s", c.args, text)
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err, "%v", c.args)
		require.NoError(t, schemas[c.schema].Validate(document), "%s: %v", c.schema, c.args)

		document.(map[string]any)["version"] = "2"
		require.Error(t, schemas[c.schema].Validate(document), "a schema that takes anything says nothing")
	}
	for _, name := range []string{"tasks.json", "scan.json"} {
		text, err := os.ReadFile(in(name))
		require.NoError(t, err)
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err)
		require.NoError(t, schemas["batch"].Validate(document), name)
	}
}

// TestSchemaOfValues: what is not finite has a place in the schema, too.
func TestSchemaOfValues(t *testing.T) {
	name := filepath.Join(t.TempDir(), "nan.safetensors")
	header := `{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`
	file := append([]byte{byte(len(header)), 0, 0, 0, 0, 0, 0, 0}, header...)
	file = append(file, 0, 0, 0xc0, 0x7f, 0, 0, 0x80, 0xff) // NaN, -Inf
	require.NoError(t, os.WriteFile(name, file, 0o666))
	cmd := demiCommand(t, "inspect", "--scan", "--json", name)
	text, _ := cmd.Output()
	require.Equal(t, 1, cmd.ProcessState.ExitCode())
	require.Contains(t, string(text), `"-Inf"`)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	require.NoError(t, err)
	require.NoError(t, closedSchemas(t)["inspect"].Validate(document))
}

// TestSchemaOfProgress: each line of --progress json, in every phase.
func TestSchemaOfProgress(t *testing.T) {
	schema := closedSchemas(t)["progress"]
	dir := t.TempDir()
	model := filepath.Join("../../testdata/charlm", "model.safetensors")
	store := filepath.Join(dir, "x.demi")
	phases := map[string]bool{}
	for _, args := range [][]string{
		{model, store, "--verify", "--json", "--report", filepath.Join(dir, "x.json")},
		{"verify", model, store},
		{"inspect", "--scan", model},
	} {
		var lines bytes.Buffer
		cmd := demiCommand(t, append([]string{"--progress", "json"}, args...)...)
		cmd.Stderr = &lines
		require.NoError(t, cmd.Run(), "%v", args)
		require.NotZero(t, lines.Len(), "%v", args)
		for line := range bytes.Lines(lines.Bytes()) {
			document, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
			require.NoError(t, err, "%v: %s", args, line)
			require.NoError(t, schema.Validate(document), "%v: %s", args, line)
			phases[document.(map[string]any)["phase"].(string)] = true
			document.(map[string]any)["done"] = "all"
			require.Error(t, schema.Validate(document), "a schema that takes anything says nothing")
		}
	}
	require.Equal(t, map[string]bool{"scan": true, "convert": true, "verify": true, "hash": true}, phases)
}
