package report

import (
	"maps"
	"slices"
)

// Clone returns a deep copy of d: it shares no slice, map or pointer with it.
func Clone(d *ShutdownReport) *ShutdownReport {
	c := *d
	c.Service.Labels = maps.Clone(d.Service.Labels)
	c.Config.PlatformGraceUS = ptr(d.Config.PlatformGraceUS)
	c.Budget.ForceTUS = ptr(d.Budget.ForceTUS)
	c.Force.TUS = ptr(d.Force.TUS)
	c.Journal = ptr(d.Journal)
	c.Triggers = slices.Clone(d.Triggers)
	c.Phases = slices.Clone(d.Phases)
	for i := range c.Phases {
		actions := slices.Clone(c.Phases[i].Actions)
		for j := range actions {
			actions[j].Error = ptr(actions[j].Error)
		}
		c.Phases[i].Actions = actions
	}
	c.Resources = slices.Clone(d.Resources)
	for i := range c.Resources {
		r := &c.Resources[i]
		r.Error = ptr(r.Error)
		r.Evidence = slices.Clone(r.Evidence)
	}
	c.Subscriptions = slices.Clone(d.Subscriptions)
	for i := range c.Subscriptions {
		s := &c.Subscriptions[i]
		s.RequeueCauses = slices.Clone(s.RequeueCauses)
		s.QueueAtEnd = ptr(s.QueueAtEnd)
	}
	c.Sessions = slices.Clone(d.Sessions)
	for i := range c.Sessions {
		c.Sessions[i].EndedAt = ptr(c.Sessions[i].EndedAt)
	}
	c.Unsettled = slices.Clone(d.Unsettled)
	c.Stacks = slices.Clone(d.Stacks)
	c.Findings = slices.Clone(d.Findings)
	for i := range c.Findings {
		c.Findings[i].Evidence = slices.Clone(c.Findings[i].Evidence)
	}
	return &c
}

func ptr[T any](p *T) *T {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
