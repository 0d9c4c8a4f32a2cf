// Package hook runs the commands of a job before and after a backup, with a timeout.
package hook
