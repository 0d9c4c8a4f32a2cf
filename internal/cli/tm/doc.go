// Package tm is what the commands of Time Machine's tmutil consist of: names of snapshots as paths, comparisons with
// the files on this machine, and output in tmutil's forms.
package tm
