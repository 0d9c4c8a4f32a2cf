package localfs

// noDevOpener is empty: macOS has no mounts that only one process sees.
type noDevOpener struct{}

func (*noDevOpener) expect(int) {}
func (*noDevOpener) close()     {}
