// Package trials is the vocabulary of Harborgate: configurations, results,
// failures and events, in the shapes that Harbor's files have. It does no I/O.
//
// A job runs trials; a trial is a task, an arm (agent, model, settings) and an
// attempt; a try is one execution of a trial. A verdict is a set of rewards, or
// nothing with a Failure that says who is to blame.
package trials
