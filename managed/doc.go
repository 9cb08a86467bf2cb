// Package managed is the consumer an application starts, stops and asks for its report.
//
// It knows deliveries, handlers, outcomes, admission, settlement rights and buckets, and puts the coordinator, the resources,
// the signals and a transport together. It knows transports only by their contract.
package managed
