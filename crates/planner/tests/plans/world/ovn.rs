//! OVN: the transaction of gateway rows, and which chassis takes a port.

use causeway_planner::{
    model::ChassisName,
    northbound::{LEFT, LeftAction, LeftRow, Leftover, NorthboundPlan, PortChange},
    snapshot::{GatewayRow, RouterPort},
};

use super::{Reaction, World};

impl World {
    /// One transaction; it fails as a whole if a port's rows are not those that the plan saw.
    pub fn write_rows(&mut self, plan: &NorthboundPlan) -> bool {
        if plan.is_empty() {
            return false;
        }
        self.writes += 1;
        if plan.ports.iter().any(|change| !self.is_as_seen(change)) {
            return true;
        }
        if plan.raise_nb_cfg {
            self.northbound().nb_cfg += 1;
        }
        for change in &plan.ports {
            self.change_port(change);
        }
        for leftover in &plan.leftovers {
            self.change_leftover(leftover);
        }
        true
    }

    fn is_as_seen(&mut self, change: &PortChange) -> bool {
        let port = self.northbound().ports.get(&change.port);
        port.is_some_and(|port| {
            let mut rows = port.chassis.iter().map(|row| &row.row);
            port.row == change.row
                && port.chassis.len() == change.seen.len()
                && rows.all(|row| change.seen.contains(row))
        })
    }

    fn change_leftover(&mut self, one: &Leftover) {
        let northbound = self.northbound();
        if one.action == LeftAction::Delete && northbound.switches.contains(one.subnet.as_str()) {
            return;
        }
        let mark = match one.action {
            LeftAction::Mark(now) => Some(now.0.to_string()),
            LeftAction::Unmark | LeftAction::Delete => None,
        };
        match &one.row {
            LeftRow::Port(row) if one.action == LeftAction::Delete => {
                northbound.ports.retain(|_, port| port.row != *row);
            }
            LeftRow::Port(row) => {
                let mut ports = northbound.ports.values_mut();
                let port = ports.find(|port| port.row == *row).expect("the port");
                port.external_ids.remove(LEFT);
                port.external_ids
                    .extend(mark.map(|mark| (LEFT.to_owned(), mark)));
            }
            LeftRow::Policy(row) if one.action == LeftAction::Delete => {
                northbound.policies.remove(row);
            }
            LeftRow::Policy(row) => {
                northbound.policies.get_mut(row).expect("the policy").left = mark;
            }
        }
    }

    fn change_port(&mut self, change: &PortChange) {
        let mut rows = Vec::new();
        for (chassis, priority) in &change.insert {
            rows.push(GatewayRow {
                row: format!("row-{}", self.number()),
                chassis: chassis.clone(),
                priority: *priority,
                ours: true,
            });
        }
        let active = self.southbound().claims.get(&change.port).cloned();
        let port = self.northbound().ports.get_mut(&change.port);
        let port = port.expect("the port");
        assert_not_black_holed(port, change, active.as_ref());
        port.chassis.retain(|row| !change.remove.contains(&row.row));
        port.chassis.extend(rows);
        port.external_ids.extend(change.set.clone());
        port.external_ids
            .retain(|key, _| !change.unset.contains(key));
    }

    pub(super) fn ovn_moves(&self) -> Vec<Reaction> {
        let (Some(northbound), Some(southbound)) = (&self.seen.northbound, &self.seen.southbound)
        else {
            return Vec::new();
        };
        let mut moves = Vec::new();
        for (name, port) in &northbound.ports {
            let lives = |row: &&GatewayRow| {
                southbound.chassis.contains_key(&row.chassis) && !self.dead.contains(&row.chassis)
            };
            let best = port
                .chassis
                .iter()
                .filter(lives)
                .max_by_key(|row| row.priority);
            match (best, southbound.claims.get(name)) {
                (Some(best), holder) if holder != Some(&best.chassis) => {
                    moves.push(Reaction::Take(name.clone(), best.chassis.clone()));
                }
                (None, Some(_)) => moves.push(Reaction::Drop(name.clone())),
                _ => {}
            }
        }
        let gone = southbound.claims.keys();
        let gone = gone.filter(|port| !northbound.ports.contains_key(*port));
        moves.extend(gone.map(|port| Reaction::Drop(port.clone())));
        let behind = southbound.chassis.iter().filter(|(name, confirmed)| {
            **confirmed < northbound.nb_cfg && !self.dead.contains(*name)
        });
        moves.extend(behind.map(|(name, _)| Reaction::Confirm(name.clone())));
        moves
    }
}

/// While rows stay, the active chassis keeps its row and nobody comes above it: else the VLAN
/// black-holes for ever (seen on the real system).
fn assert_not_black_holed(port: &RouterPort, change: &PortChange, active: Option<&ChassisName>) {
    let stays = |row: &&GatewayRow| !change.remove.contains(&row.row);
    if port.chassis.iter().filter(stays).count() == 0 {
        return;
    }
    let Some(row) = port.chassis.iter().find(|row| Some(&row.chassis) == active) else {
        return;
    };
    assert!(
        stays(&row),
        "{}: the active row goes: {change:?}",
        change.port
    );
    let above = change.insert.values().any(|rank| *rank > row.priority);
    assert!(!above, "{}: above the active row: {change:?}", change.port);
}
