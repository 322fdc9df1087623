// Package board is the Grafana dashboards, as tables of panels from which their
// JSON is made (dashboards/grafana): Ownership for whoever asks whether every
// handoff was clean, Node for one sidecar, Fleet for many.
//
// It imports Grafana's foundation SDK and nothing of kvwitness: what it asks for is
// held against the metrics and the recording rules by test/dashboards. It promises:
//
//  1. No panel asks for the series of a fleet: Ownership and Fleet ask for what
//     recording rules made; Node asks for the series of one node.
//  2. The data source is a variable, and so are cluster, model, node and engine.
//  3. Every panel has a title, a description, a unit and an id of its own, every
//     query a refId and a legend.
package board
