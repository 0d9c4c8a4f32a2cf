//go:build !darwin

package gatehouse

// byKernel: nobody but the gates makes jobs of worse tiers sleep.
const byKernel = false
