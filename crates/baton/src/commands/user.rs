use super::hub::HubFile;
use crate::args::{User, UserAction};
use crate::failure::Failure;
use crate::files;
use crate::output::Output;
use baton_client::{Http, Token};
use serde_json::json;

pub(crate) async fn run(args: User, out: &Output) -> Result<u8, Failure> {
    let UserAction::Add { name, data } = args.action;
    let data = match data {
        Some(data) => data,
        None => files::default_data()?,
    };
    let file = HubFile::read(&HubFile::path(&data))?;
    let token = Token::new(&file.admin_token).map_err(|error| Failure::failed(format!("{error}."), "Start the hub again."))?;
    let added = Http::new(file.address().read()?, Some(token))?.add_user(&name).await?;
    let link = file.link(&added.secret);
    out.say(
        &json!({"event": "user_added", "user_id": added.user_id, "name": added.name, "owner_link": link, "expires_at": added.expires_at}),
        &format!("'{}' is added. This link pairs that user's first device; it works once, for five minutes:\n{link}", added.name),
    );
    Ok(0)
}
