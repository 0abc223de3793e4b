//! The table of the matrix: one line for each second fault.

use std::fmt::Write;

use super::observer::{Loss, PlayResult};

/// The plays of one second fault.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Summary {
    pub(super) plays: usize,
    pub(super) possible: usize,
    /// The plays in which a node turned Unknown although a fence in time was possible.
    pub(super) lost: usize,
    /// The plays in which a node turned Unknown and no fence in time was possible.
    pub(super) not_possible_lost: usize,
    /// The plays in which a node turned Unknown although the guard had not run out.
    pub(super) lost_under_guard: usize,
    pub(super) late_restores: usize,
    pub(super) unfounded: usize,
    /// The violations that the auditor of chaos runs reports.
    pub(super) violations: usize,
    /// The smallest margin of a fence that was possible, in seconds.
    worst_margin: Option<f64>,
    /// The RNG seed of the first landscape with something to complain about.
    first_bad: Option<u64>,
}

impl Summary {
    /// Adds the plays of one landscape.
    pub(super) fn add(&mut self, rng_seed: u64, plays: &[PlayResult], violations: usize) {
        self.violations += violations;
        for play in plays {
            self.plays += usize::from(play.phase.is_some());
            self.possible += usize::from(play.is_possible());
            let is_lost = play.loss.is_some() && play.is_possible();
            self.lost += usize::from(is_lost);
            self.not_possible_lost += usize::from(play.loss.is_some() && !play.is_possible());
            let is_lost_under_guard = play.loss == Some(Loss::UnderGuard);
            self.lost_under_guard += usize::from(is_lost_under_guard);
            self.late_restores += usize::from(play.is_restored_late);
            self.unfounded += usize::from(play.is_unfounded);
            let is_bad = is_lost || is_lost_under_guard;
            if is_bad || play.is_restored_late || play.is_unfounded {
                self.first_bad.get_or_insert(rng_seed);
            }
            let margin = play.margin.filter(|_| play.is_possible());
            let worst = self.worst_margin.into_iter().chain(margin);
            self.worst_margin = worst.reduce(f64::min);
        }
    }
}

/// Formats a table, with the commands that replay landscapes.
pub(super) fn table(summaries: &[(&str, Summary)]) -> String {
    let mut text = String::from(
        "| second fault | plays | possible | lost | lost, not possible \
         | lost under guard | late restores \
         | unfounded fences | rules broken | worst margin |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut replays = String::new();
    for (name, one) in summaries {
        let margin = one
            .worst_margin
            .map_or_else(String::new, |margin| format!("{margin:.1} s"));
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {margin} |",
            one.plays,
            one.possible,
            one.lost,
            one.not_possible_lost,
            one.lost_under_guard,
            one.late_restores,
            one.unfounded,
            one.violations,
        );
        if let Some(rng_seed) = one.first_bad {
            let _ = writeln!(
                replays,
                "replay with: cargo xtask sim matrix --fault {name} --seed {rng_seed}"
            );
        }
    }
    text + &replays
}
