//go:build suite

package main

// The module has the files of yaml-test-suite; the import keeps it in go.mod.
import _ "github.com/goccy/go-yaml/testdata/yaml-test-suite"
