// Package options turns flags, environment and an option file into one immutable Spec that says what a run shall do,
// and where each value comes from. One table describes every option; flags, the file parser, the environment reader,
// the listing of `tidemark options` and docs/options.md are all made from it.
//
// Flags win over the environment, the environment over the option file, the file over the defaults. Options that hold a
// list are collected from all of them instead, the file first.
//
// The package knows names, types and units. It refuses to know what a value is used for, and does no I/O: the caller
// hands in how a file is read and how the environment is asked.
package options
