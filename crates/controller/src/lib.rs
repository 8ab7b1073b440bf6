//! Carries plans out: render, apply, northbound rows, conditions
