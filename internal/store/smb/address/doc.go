// Package address parses the addresses of SMB shares and the files with their credentials, and masks passwords in text.
package address
