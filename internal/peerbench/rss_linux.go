package main

// rssUnit is what the kernel counts the largest resident set in: bytes.
const rssUnit = 1 << 10
