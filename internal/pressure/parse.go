package pressure

import "errors"

// sector is the unit of the kernel's statistics of devices and processes, whatever that of the disk is.
const sector = 512

// addStat adds the text of a stat file of sysfs: of its columns the 3rd and 7th are the sectors read and written, the 9th
// the requests in flight, and the 16th the flushes, which kernels before 5.5 do not have.
func addStat(sum *counts, text []byte) error {
	var column [16]uint64
	n := 0
	for ; n < len(column); n++ {
		v, rest := number(text)
		if rest == nil {
			break
		}
		column[n], text = v, rest
	}
	if n < 11 {
		return errors.New("not the statistics of a device")
	}
	sum.read += column[2] * sector
	sum.written += column[6] * sector
	sum.inflight += int(column[8])
	sum.flushes += column[15]
	return nil
}

// number takes the first number of text, after spaces. rest is nil if there is none.
func number(text []byte) (v uint64, rest []byte) {
	i := 0
	for i < len(text) && text[i] == ' ' {
		i++
	}
	start := i
	for i < len(text) && text[i] >= '0' && text[i] <= '9' {
		v = v*10 + uint64(text[i]-'0')
		i++
	}
	if i == start {
		return 0, nil
	}
	return v, text[i:]
}
