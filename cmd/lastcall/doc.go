// Command lastcall runs message consumers from a configuration file that end well, and proves how they ended.
//
//	lastcall demo              a whole life on an in-process broker, and its report
//	lastcall run -c FILE       a consumer; its exit code is the report's
//	lastcall check -c FILE     validates a configuration and explains its budget
//	lastcall report show FILE  a report as a timeline
//
// It knows the configuration file, the flags, the process and the terminal. What a consumer does is managed's, what a report
// says is report's. Data goes to stdout, everything else to stderr.
package main
