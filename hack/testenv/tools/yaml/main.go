// Command yaml-reader reads a JSON list of YAML texts on standard input, and writes for each what kubectl reads of it.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	goyaml "go.yaml.in/yaml/v3"
	kubernetes "k8s.io/apimachinery/pkg/util/yaml"
)

type reading struct {
	// The documents that are not empty, up to the first error.
	Documents []json.RawMessage `json:"documents"`
	// The error of kubectl.
	Error string `json:"error"`
	// The error of go-yaml v3, with which kustomize reads.
	GoYAML string `json:"goYaml"`
}

// kubectl reads with the decoder that kubectl's resource builder uses.
func (r *reading) kubectl(text string) {
	defer catch(&r.Error)
	decoder := kubernetes.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var document json.RawMessage
		if err := decoder.Decode(&document); err != nil {
			if !errors.Is(err, io.EOF) {
				r.Error = err.Error()
			}
			return
		}
		if len(document) > 0 && string(document) != "null" {
			r.Documents = append(r.Documents, document)
		}
	}
}

func (r *reading) goYAML(text string) {
	defer catch(&r.GoYAML)
	decoder := goyaml.NewDecoder(strings.NewReader(text))
	for {
		var document any
		if err := decoder.Decode(&document); err != nil {
			if !errors.Is(err, io.EOF) {
				r.GoYAML = err.Error()
			}
			return
		}
	}
}

func catch(err *string) {
	if fault := recover(); fault != nil {
		*err = fmt.Sprint("panic: ", fault)
	}
}

func main() {
	var texts []string
	if err := json.NewDecoder(os.Stdin).Decode(&texts); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	readings := make([]reading, len(texts))
	for i, text := range texts {
		readings[i].Documents = []json.RawMessage{}
		readings[i].kubectl(text)
		readings[i].goYAML(text)
	}
	if err := json.NewEncoder(os.Stdout).Encode(readings); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
