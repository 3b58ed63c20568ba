package safetensors

// PlanWithin is Plan with a limit for the bytes of the header other than
// MaxHeader.
var PlanWithin = planWithin
