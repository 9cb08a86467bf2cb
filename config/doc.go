// Package config reads the configuration file of the command: strict TOML, explained in config.example.toml.
//
// It knows keys, values, positions and what fits together, and turns them into a managed.Config. It does not know brokers: the
// command chooses the transport by [Broker.Kind]. It dials nothing and runs no handler.
//
//	file --TOML--> values + positions --decode--> File --environment, flags--> validate --> *File with warnings
//	                                     |                                        |
//	                                     +------------- problems -----------------+--> *Error, in file order
//
// Flags beat environment beats file beats defaults. Everything wrong is reported at once, each problem with its place and with
// what to change; no text of this package ever holds a password.
package config
