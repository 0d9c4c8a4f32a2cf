// Package pressure tells whether somebody else uses a device now, and who.
package pressure
