use crate::address::Address;
use crate::args::Pair;
use crate::failure::Failure;
use crate::output::Output;
use crate::profile::{self, Profile};
use crate::{files, interrupt};
use baton_client::Http;
use baton_proto::{Capabilities, ClientType, Credentials, PairingClaim, PairingRequest, PairingState};
use serde_json::json;
use std::time::Duration;

pub(crate) async fn run(args: Pair, profile: Option<&str>, out: &Output) -> Result<u8, Failure> {
    let path = profile::path(profile)?;
    let hub = Address::given(args.hub.or(args.hub_named).as_deref(), &args.vouching)?;
    if let Some(known) = Profile::read(&path)? {
        if let Some(moved) = moved(&known, &hub).await? {
            moved.write(&path)?;
            out.say(
                &json!({"event": "moved", "device_id": moved.device_id, "hub": hub.url}),
                &format!("This terminal is paired already, as '{}'; from now on it reaches the hub at {}.", moved.name, hub.url),
            );
            return Ok(0);
        }
        // Pairing again would leave the old device behind, unless the hub has forgotten it.
        match known.http()?.hub().await {
            Err(error) if error.is_unauthenticated() => {}
            Err(_) if known.address() != hub => {}
            _ if known.address() == hub => {
                return Err(Failure::usage(
                    format!("This terminal is paired with {} already, as '{}'.", known.hub, known.name),
                    "Use another --profile, or revoke it first: baton devices revoke.",
                ));
            }
            _ => {}
        }
    }
    let name = args.name.unwrap_or_else(|| format!("{} terminal", files::machine_name()));
    let credentials = request(&hub, &name, ClientType::Cli, out).await?;
    let (device_id, trust) = (credentials.device_id, credentials.trust);
    Profile::of(hub.clone(), credentials).write(&path)?;
    out.say(
        &json!({"event": "paired", "device_id": device_id, "trust": trust, "hub": hub.url}),
        &format!("Paired as '{name}' ({}). Try: baton sessions", format!("{trust:?}").to_lowercase()),
    );
    Ok(0)
}

/// The same pairing at a hub that speaks HTTPS now, or has another authority: whoever answers proves to be the one that was named, and
/// knows this terminal. A token goes only to where it went before.
async fn moved(known: &Profile, hub: &Address) -> Result<Option<Profile>, Failure> {
    let (before, url) = (known.address().read()?, hub.read()?);
    if known.address() == *hub || before.place() != url.place() || !url.is_encrypted() {
        return Ok(None);
    }
    let answered = Http::new(url, Some(known.token()?))?.hub().await;
    Ok(answered.is_ok().then(|| known.at(hub.clone())))
}

/// Asks to be paired, shows the code, and waits until a trusted device has approved it or the code has expired.
pub(crate) async fn request(hub: &Address, name: &str, client_type: ClientType, out: &Output) -> Result<Credentials, Failure> {
    let http = Http::new(hub.read()?, None)?;
    let started = http.start_pairing(&PairingRequest { name: name.to_owned(), client_type, capabilities: Capabilities::default() }).await?;
    out.say(
        &json!({"event": "pairing", "code": started.code, "number": started.number, "pairing_id": started.pairing_id, "expires_at": started.expires_at}),
        &format!(
            "On a device that you trust, open Devices and approve this code:\n\n    {}\n\nThat device then has to show the number {}. The code lives for five minutes.",
            started.code, started.number
        ),
    );
    let claim = PairingClaim { secret: started.secret, cookie: false };
    loop {
        tokio::select! {
            stop = interrupt::asked_to_stop() => {
                stop?;
                return Err(Failure::failed("Pairing was interrupted.", "Run it again when you are ready."));
            }
            () = tokio::time::sleep(Duration::from_millis(700)) => {}
        }
        match http.claim_pairing(started.pairing_id, &claim).await {
            Ok(PairingState::Waiting { .. }) => {}
            Ok(PairingState::Approved(credentials)) => return Ok(credentials),
            Err(error) if error.may_be_repeated() => {}
            Err(error) => return Err(error.into()),
        }
    }
}
