// Package guides tests that the commands of the documents work: those of the README and of docs/guides are run, and
// those of all other documents are parsed, by the program.
package guides
