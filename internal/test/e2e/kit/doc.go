// Package kit holds what the tests below internal/test/e2e share: a repository with everything a test does to it
// (Engine), one with snapshots known byte for byte (Pruned), and processes that are killed.
package kit
