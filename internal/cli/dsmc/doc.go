// Package dsmc reads command lines of IBM's backup-archive client: commands with their abbreviations, options with one
// dash, file specifications and dates.
package dsmc
