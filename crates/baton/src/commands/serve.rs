use super::hub::{Search, Serving};
use crate::args::Serve;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::Output;
use serde_json::json;

pub(crate) async fn run(args: Serve, out: &Output) -> Result<u8, Failure> {
    let serving = Serving::start(&args.hub, Search::Nowhere).await?;
    let link = serving.owner_link().await?;
    let trust = serving.trust_words();
    out.say(
        &json!({"event": "ready", "url": serving.file.url, "owner_link": link, "trust_link": serving.trust_link(), "fingerprint": serving.file.authority, "data": serving.data, "pid": std::process::id()}),
        &format!(
            "The hub listens on {}.\n{}Pair your first device with this link; it works once, for five minutes:\n{link}",
            serving.file.url,
            trust.map(|trust| format!("{trust}\n")).unwrap_or_default()
        ),
    );
    let failed = {
        let hub = std::sync::Arc::clone(&serving.hub);
        tokio::select! {
            stop = interrupt::asked_to_stop() => { stop?; None }
            reason = hub.failed() => Some(reason),
        }
    };
    serving.stop().await?;
    failed.map_or(Ok(0), |reason| Err(Failure::failed(reason, "Start the hub again when the cause is mended.")))
}
