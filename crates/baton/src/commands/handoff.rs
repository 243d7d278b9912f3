use crate::args::Handoff;
use crate::failure::{FAILED, Failure};
use crate::output::Output;
use crate::profile::Profile;
use crate::{commands, pick, profile};
use baton_client::{Connection, ConnectionConfig, Hello, Http, Incoming, Timing};
use baton_proto::{ClientType, DeviceId, EntityView, HandoffEntity, HandoffState, HubFrame, Intent, SessionId};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Offers the session to another device, and waits for what becomes of the offer: without an answer the hub takes it back by itself.
pub(crate) async fn run(args: Handoff, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let profile = profile::load(profile)?;
    let http = profile.http()?;
    let session = pick::session_or_newest(&http, args.session.as_deref()).await?;
    let to_device = commands::devices::find(&http, &args.device).await?;
    let name = name(&http, to_device).await?;
    let epoch = pick::entity(&http.session(session).await?)?.epoch;
    let reply = pick::operate(&http, Some(session), Some(epoch), Intent::Handoff { to_device }, args.confirm).await?;
    out.say(
        &json!({"event": "offered", "session_id": session, "to": to_device, "version": reply.version}),
        &format!("Offered to {name}. It has to accept there."),
    );
    // The offer is among the changes after the version before it, so that a quick answer isn't missed.
    let state = answer(&profile, session, reply.version.saturating_sub(1), to_device).await?;
    let (event, text, code) = match state {
        HandoffState::Accepted => ("handed_over", format!("{name} has the session now."), 0),
        HandoffState::Declined => ("declined", format!("{name} declined. The session stays here."), FAILED),
        HandoffState::Expired | HandoffState::Offered => {
            ("expired", format!("{name} didn't answer in time. The session stays here; offer it again, or open it there."), FAILED)
        }
    };
    out.say(&json!({"event": event, "session_id": session, "to": to_device}), &text);
    Ok(code)
}

async fn name(http: &Http, id: DeviceId) -> Result<String, Failure> {
    let devices = http.devices().await?;
    Ok(devices.into_iter().find(|device| device.device_id == id).map_or_else(|| id.to_string(), |device| device.name))
}

/// What becomes of the offer to a device that was made after a sequence number.
async fn answer(profile: &Profile, session: SessionId, after: u64, to: DeviceId) -> Result<HandoffState, Failure> {
    let url = profile.hub_url()?;
    let config = ConnectionConfig {
        url: Arc::new(move || Ok(url.clone())),
        token: profile.token()?,
        greeting: Arc::new(Hello::of(ClientType::Cli)),
        cursors: BTreeMap::from([(session, after)]),
        timing: Timing::default(),
    };
    let (handle, mut incoming) = Connection::spawn(config);
    let settled = |entities: &[EntityView]| entities.iter().find_map(|entity| settled(entity, to));
    let mut told = false;
    while let Some(word) = incoming.recv().await {
        let state = match word {
            Incoming::Frame(frame) => match *frame {
                HubFrame::Change(change) if change.session_id == session => settled(&change.upserts),
                HubFrame::View(view) if view.session_id == session => settled(&view.entities),
                HubFrame::Error { error, .. } => return Err(error.into()),
                _ => None,
            },
            Incoming::Disconnected { reason } if !told => {
                told = true;
                eprintln!("baton: the link to the hub is gone ({}); trying again", crate::failure::plainly(&reason));
                None
            }
            Incoming::Refused(error) => return Err(error.into()),
            _ => None,
        };
        if let Some(state) = state {
            handle.stop().await;
            return Ok(state);
        }
    }
    Err(Failure::unreachable("The link to the hub ended.", "`baton show latest` tells who has the session."))
}

fn settled(entity: &EntityView, to: DeviceId) -> Option<HandoffState> {
    match entity {
        EntityView::Handoff(HandoffEntity { to: target, state, .. }) if *target == to && *state != HandoffState::Offered => Some(*state),
        _ => None,
    }
}
