//! Watches of the API, NB and SB folded into the planner's snapshot
