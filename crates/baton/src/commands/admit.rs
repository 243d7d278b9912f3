//! Letting a new device in: by the code that it shows, or by a link of this terminal's. Before, a person compares the number on both screens (S4).

use crate::failure::Failure;
use crate::output::Output;
use baton_client::Http;
use baton_proto::{Asking, ClientType, InvitationApproval, InvitationId, InvitationStanding, InvitationView, PairingApproval, Trust};
use serde_json::{Value, json};
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

/// How often it is looked whether somebody has opened the link.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Lets in the device that shows this code.
pub(crate) async fn by_code(http: &Http, code: &str, number: Option<String>, trust: Trust, out: &Output) -> Result<(), Failure> {
    let asking = http.preview_pairing(code).await?;
    let words = asks(&asking.name, asking.client_type, &asking.from, &asking.number);
    let event = json!({
        "event": "asking", "name": asking.name, "client_type": asking.client_type, "from": asking.from, "number": asking.number
    });
    let number = match number {
        Some(number) => number,
        None if !someone_is_here(out) => {
            return Err(Failure::usage(
                words,
                format!("If it does, and it is yours: baton devices approve {} --number {}", asking.code, asking.number),
            ));
        }
        None => {
            out.say(&event, &words);
            if !answers_yes("Does it show the same number, and is it yours? [y/N] ").await? {
                return Err(Failure::failed("It was not let in.", "Its code dies by itself within five minutes."));
            }
            asking.number
        }
    };
    http.approve_pairing(code, &PairingApproval { trust, number }).await?;
    out.say(
        &json!({"event": "approved", "name": asking.name, "client_type": asking.client_type}),
        &format!("'{}' ({}) is let in.", asking.name, kind(asking.client_type)),
    );
    Ok(())
}

/// Makes a link. Where a person sits here, it is waited for whoever opens it.
pub(crate) async fn invite(http: &Http, trust: Trust, out: &Output) -> Result<(), Failure> {
    let made = http.invite(trust).await?;
    out.say(
        &json!({"event": "invitation", "url": made.url, "invitation_id": made.invitation_id, "expires_at": made.expires_at}),
        &format!("Open this on the new device within five minutes; it works once:\n{}", made.url),
    );
    if !someone_is_here(out) {
        out.say(&Value::Null, "Then confirm here what asks: baton devices confirm");
        return Ok(());
    }
    let found = wait(http, made.invitation_id, out).await?;
    let Some(asking) = found.asking else { return Err(Failure::failed("The link was withdrawn.", "Make a new one.")) };
    tell(&found.invitation_id, &asking, found.others, out);
    if answers_yes("Does it show the same number, and is it yours? [y/N] ").await? {
        approve(http, found.invitation_id, &asking, out).await
    } else {
        refuse(http, found.invitation_id, &asking, out).await
    }
}

/// Decides about what asks by a link that this terminal made; without a number it says what asks.
pub(crate) async fn confirm(http: &Http, number: Option<&str>, refuses: bool, out: &Output) -> Result<(), Failure> {
    let links = http.invitations().await?;
    let asking = links.iter().filter(|link| link.standing == InvitationStanding::Asking);
    let asking: Vec<_> = asking.filter_map(|link| Some((link, link.asking.as_ref()?))).collect();
    let Some(number) = number else {
        for (link, asking) in &asking {
            tell(&link.invitation_id, asking, link.others, out);
            let words = format!("If it does, and it is yours: baton devices confirm {}    Otherwise add --refuse.", asking.number);
            out.say(&Value::Null, &words);
        }
        if asking.is_empty() {
            out.say(&Value::Null, "Nobody asks to be let in by a link of this terminal's.");
        }
        return Ok(());
    };
    let Some((link, asking)) = asking.into_iter().find(|(_, asking)| asking.number == number) else {
        return Err(Failure::usage(
            format!("Nothing that asks by a link of this terminal's shows {number}."),
            "`baton devices confirm` says what asks. If the numbers differ, somebody else has opened the link: add --refuse to its number.",
        ));
    };
    if refuses { refuse(http, link.invitation_id, asking, out).await } else { approve(http, link.invitation_id, asking, out).await }
}

async fn wait(http: &Http, id: InvitationId, out: &Output) -> Result<InvitationView, Failure> {
    out.say(&Value::Null, "Waiting for the new device …");
    loop {
        let found = http.invitations().await?.into_iter().find(|link| link.invitation_id == id);
        match found {
            None => return Err(Failure::failed("Nobody opened the link within five minutes.", "Make a new one.")),
            Some(link) if link.standing != InvitationStanding::Open => return Ok(link),
            Some(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

async fn approve(http: &Http, id: InvitationId, asking: &Asking, out: &Output) -> Result<(), Failure> {
    let now = http.approve_invitation(id, &InvitationApproval { number: asking.number.clone() }).await?;
    out.say(
        &json!({"event": "approved", "name": asking.name, "client_type": asking.client_type, "others": now.others}),
        &format!("'{}' ({}) is let in.", asking.name, kind(asking.client_type)),
    );
    Ok(())
}

async fn refuse(http: &Http, id: InvitationId, asking: &Asking, out: &Output) -> Result<(), Failure> {
    http.refuse_invitation(id).await?;
    out.say(
        &json!({"event": "refused", "name": asking.name, "client_type": asking.client_type}),
        &format!("'{}' was refused. Whoever opened the link knew it: make a new one, and show it to nobody else.", asking.name),
    );
    Ok(())
}

fn tell(id: &InvitationId, asking: &Asking, others: u32, out: &Output) {
    let event = json!({
        "event": "asking", "invitation_id": id, "name": asking.name, "client_type": asking.client_type, "from": asking.from,
        "number": asking.number, "others": others
    });
    let mut words = asks(&asking.name, asking.client_type, &asking.from, &asking.number);
    if others > 0 {
        words.push_str("\nSomebody else tried this link too. If the numbers differ, refuse.");
    }
    out.say(&event, &words);
}

fn asks(name: &str, client_type: ClientType, from: &str, number: &str) -> String {
    format!("'{name}' ({}) asks to be let in from {from}. It has to show the number {number}.", kind(client_type))
}

fn kind(client_type: ClientType) -> String {
    format!("{client_type:?}").to_lowercase()
}

fn someone_is_here(out: &Output) -> bool {
    !out.is_json() && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// Anything but a plain yes is a no.
async fn answers_yes(question: &'static str) -> Result<bool, Failure> {
    let answer = tokio::task::spawn_blocking(move || {
        let mut out = std::io::stdout().lock();
        write!(out, "{question}").and_then(|()| out.flush())?;
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map(|_| line)
    });
    let line = answer.await.map_err(|error| Failure::failed(format!("The answer can't be read: {error}."), "Try again."))??;
    Ok(matches!(line.trim().to_lowercase().as_str(), "y" | "yes"))
}
