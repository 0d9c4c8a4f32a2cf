// Package bench measures how fast this machine compresses, hashes, cuts, reads and writes at each policy.
package bench
