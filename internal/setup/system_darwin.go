package setup

// Label implements System.
func (h *Host) Label(source string) string {
	mounts, err := h.Mounts()
	if err != nil {
		return ""
	}
	return labelOfMac(mounts, source)
}
