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
    if let Some(known) = Profile::read(&path)? {
        // Pairing again would leave the old device behind, unless the hub has forgotten it.
        match known.http()?.hub().await {
            Err(error) if error.is_unauthenticated() => {}
            Err(_) if known.hub != args.hub => {}
            _ if known.hub == args.hub => {
                return Err(Failure::usage(
                    format!("This terminal is paired with {} already, as '{}'.", known.hub, known.name),
                    "Use another --profile, or revoke it first: baton devices revoke.",
                ));
            }
            _ => {}
        }
    }
    let name = args.name.unwrap_or_else(|| format!("{} terminal", files::machine_name()));
    let credentials = request(&args.hub, &name, ClientType::Cli, out).await?;
    let (device_id, trust) = (credentials.device_id, credentials.trust);
    Profile::of(&args.hub, credentials).write(&path)?;
    out.say(
        &json!({"event": "paired", "device_id": device_id, "trust": trust, "hub": args.hub}),
        &format!("Paired as '{name}' ({}). Try: baton sessions", format!("{trust:?}").to_lowercase()),
    );
    Ok(0)
}

/// Asks to be paired, shows the code, and waits until a trusted device has approved it or the code has expired.
pub(crate) async fn request(hub: &str, name: &str, client_type: ClientType, out: &Output) -> Result<Credentials, Failure> {
    let http = Http::new(profile::hub_url(hub)?, None)?;
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
