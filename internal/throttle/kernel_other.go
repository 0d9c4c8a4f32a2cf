//go:build !darwin

package throttle

// byKernel: only the gates delay I/O of worse tiers.
const byKernel = false
