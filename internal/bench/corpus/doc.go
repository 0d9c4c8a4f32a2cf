// Package corpus makes the data sets on which tidemark is measured beside other programs, the same on every machine for
// the same seed:
//
//   - tiny: a million files of 0 to 4 KiB in forty thousand folders, a third of them copies of others; text as in
//     sources and configuration.
//   - mixed: sixty-six thousand objects of 4.2 GB, half of the bytes packed or binary, one of the files an image of a
//     disk of 1 GiB.
//   - source: a copy of existing trees of source text (Go's module cache, Go, headers), bounded to 84 000 objects and
//     1.3 GB. It is the same only on machines that have the same trees.
//
// Each can be shrunk, and each has next versions: 1 % of the tiny files with other content, scattered pages of the
// image, a day of work on the sources. A version follows from the one before, so a set on a disk carries a record of
// its state.
//
// The sets are not for tests of correctness: names are plain and no content is hostile.
package corpus
