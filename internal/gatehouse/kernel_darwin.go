package gatehouse

// byKernel: the kernel makes jobs of worse tiers sleep by itself (setiopolicy_np, see package priority), so that the gates
// only count.
const byKernel = true
