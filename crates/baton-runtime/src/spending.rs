//! Tokens: what was used by day, and what may be (R3, R4).

use crate::clock::Clock;
use crate::directory::Identity;
use crate::error::{HubError, told};
use crate::hub::Hub;
use baton_core::Budgets;
use baton_proto::{DayUsage, ErrorBody, SessionSummary, Timestamp, Usage, UsageReport, UserId};
use baton_store::{Head, Store, StoreError, StreamKind};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

/// Sessions that are read in one go.
const PAGE: u32 = 200;
/// Days that are reported.
const SHOWN_DAYS: usize = 7;

/// The budgets that hold, and what was spent today. Counted in memory from what the sessions' own state says, which is durable.
#[derive(Debug)]
pub(crate) struct Spending {
    limits: Budgets,
    today: Mutex<HashMap<UserId, (String, u64)>>,
}

impl Spending {
    /// Reads what was spent today, where a budget of the day asks for it.
    pub(crate) async fn load(limits: Budgets, store: &dyn Store, clock: &dyn Clock, users: &[UserId]) -> Result<Self, HubError> {
        let mut today = HashMap::new();
        if limits.day.is_some() {
            let day = clock.now().day();
            for user in users {
                let spent = days_of(store, *user, |head| head.updated_at.day() >= day).await?;
                today.insert(*user, (day.clone(), spent.get(&day).map_or(0, Usage::total)));
            }
        }
        Ok(Self { limits, today: Mutex::new(today) })
    }

    pub(crate) fn budgets(&self, user: UserId, now: Timestamp) -> Budgets {
        let today = self.today.lock().unwrap_or_else(PoisonError::into_inner);
        let spent_today = today.get(&user).filter(|(day, _)| *day == now.day()).map_or(0, |(_, spent)| *spent);
        Budgets { spent_today, ..self.limits }
    }

    pub(crate) fn add(&self, user: UserId, at: Timestamp, usage: Usage) {
        if self.limits.day.is_none() {
            return;
        }
        let mut today = self.today.lock().unwrap_or_else(PoisonError::into_inner);
        let (day, spent) = today.entry(user).or_default();
        if *day != at.day() {
            (*day, *spent) = (at.day(), 0);
        }
        *spent = spent.saturating_add(usage.total());
    }
}

impl Hub {
    /// Tokens by day over all of a user's sessions, beside the budgets that hold.
    pub async fn usage(&self, who: Identity) -> Result<UsageReport, ErrorBody> {
        let week = i64::try_from(SHOWN_DAYS).unwrap_or(7) * 24 * 60 * 60 * 1000;
        let oldest = self.shared.clock.now().plus(-week);
        let mut days = days_of(&*self.shared.store, who.user_id, |head| head.updated_at >= oldest)
            .await
            .map_err(|error| told(&HubError::Store(error)))?;
        while days.len() > SHOWN_DAYS {
            days.pop_first();
        }
        let Budgets { task, day, .. } = self.shared.spending.limits;
        let cost = |usage| self.price.as_ref().map(|price| price.of(usage));
        let days = days.into_iter().map(|(day, usage)| DayUsage { day, usage, cost: cost(usage) }).collect();
        Ok(UsageReport { days, task_budget: task, day_budget: day, price: self.price.clone() })
    }
}

/// What sessions used by day, from the newest session back as long as `wanted` says.
async fn days_of(store: &dyn Store, user: UserId, wanted: impl Fn(&Head) -> bool) -> Result<BTreeMap<String, Usage>, StoreError> {
    let mut days: BTreeMap<String, Usage> = BTreeMap::new();
    let mut before = None;
    loop {
        let heads = store.heads(user, StreamKind::Session, before, PAGE).await?;
        for head in &heads {
            if !wanted(head) {
                return Ok(days);
            }
            let Ok(summary) = serde_json::from_slice::<SessionSummary>(&head.summary) else { continue };
            for DayUsage { day, usage, .. } in summary.usage {
                days.entry(day).or_default().add(usage);
            }
        }
        let last = heads.last().filter(|_| heads.len() == PAGE as usize);
        let Some(last) = last else { return Ok(days) };
        before = Some((last.updated_at, last.stream.id));
    }
}
