package localfs

// noDevMounts is empty: macOS has no mounts that only one process sees.
type noDevMounts struct{}

type noDevDir struct{}

func (m *noDevMounts) openCopy(int) (*noDevDir, error) { return nil, errNoCopy }

func (d *noDevDir) openFile(string, uint64) (int, error) { return -1, errNoCopy }

func (d *noDevDir) close() {}
