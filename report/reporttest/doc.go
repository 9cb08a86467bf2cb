// Package reporttest holds reports against all that a report promises, for the tests of whatever produces one.
package reporttest
