// Package others watches other processes of this machine: what those that cooperate have had submitted to devices, their
// descendants included, and who has moved most.
//
// It looks into /proc only, and refuses to know of devices: the kernel tells of processes what they moved, never where.
// Whether a device number is of interest the caller says.
package others
