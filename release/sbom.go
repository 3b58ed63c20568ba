package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
)

// cyclonedxTool makes bills of materials in the form of CycloneDX.
const cyclonedxTool = "github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0"

// cyclonedx returns the bill of materials of a binary, made from what the
// toolchain has recorded in it: exactly the modules that are linked.
func cyclonedx(ctx context.Context, binary string) ([]byte, error) {
	env := append(os.Environ(), "GOFLAGS=-mod=readonly")
	bill, err := command(ctx, "", env, "go", "run", cyclonedxTool, "bin", "-json", "-noserial", "-notimestamp", "-std", binary)
	if err != nil {
		return nil, err
	}
	return withoutTools(bill)
}

// withoutTools takes the hashes of the tool's own executable away, which differ
// between machines, and keeps its name and version.
func withoutTools(bill []byte) ([]byte, error) {
	var doc map[string]any
	if err := json.Unmarshal(bill, &doc); err != nil {
		return nil, err
	}
	metadata, _ := doc["metadata"].(map[string]any)
	tools, ok := metadata["tools"].([]any)
	if !ok {
		return nil, fmt.Errorf("no list metadata.tools in the bill of materials")
	}
	for _, t := range tools {
		if tool, ok := t.(map[string]any); ok {
			delete(tool, "hashes")
		}
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(doc)
	return b.Bytes(), err
}
