use baton_server::Asset;
use rust_embed::RustEmbed;

/// The console, built by `npm run build` and embedded in the binary.
#[derive(RustEmbed)]
#[folder = "$CARGO_MANIFEST_DIR/../../web/dist"]
#[allow_missing = true]
struct Console;

/// One of the console's files. A binary that was built without the console says so instead of showing nothing.
pub(crate) fn find(name: &str) -> Option<Asset> {
    if let Some(file) = Console::get(name) {
        return Some(Asset { bytes: file.data, content_type: content_type(name).into() });
    }
    (name == "index.html")
        .then(|| Asset { bytes: include_bytes!("../no-console.html").as_slice().into(), content_type: "text/html; charset=utf-8".into() })
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "json" => "application/json",
        "webmanifest" => "application/manifest+json",
        _ => "application/octet-stream",
    }
}
