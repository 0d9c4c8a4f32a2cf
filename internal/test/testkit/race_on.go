//go:build race

package testkit

// raced: this run has the race detector.
const raced = true
