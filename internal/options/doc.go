// Package options resolves flags, environment and an option file into one immutable Spec, which also records the origin
// of each value. One table describes every option; the flags, the file parser, the environment reader, the output of
// `tidemark options` and docs/cli/options.md are generated from it.
//
// Flags override the environment, the environment overrides the option file, and the file overrides the defaults. List
// options collect the values of all of them instead, the file first.
//
// The package does no I/O: the caller passes functions that read a file and an environment variable.
package options
