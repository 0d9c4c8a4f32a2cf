package throttle

// byKernel: the kernel delays I/O of worse tiers itself (setiopolicy_np, see package priority), so the gates only
// count.
const byKernel = true
