//! Every route, in one table that also builds the router, so that none is forgotten when it is asked which need a token (S1).

mod devices;
mod diff;
mod files;
mod health;
mod hub;
mod import;
mod invitations;
mod operations;
mod pairings;
mod rules;
mod search;
mod sessions;
mod stream;
mod uploads;
mod usage;
mod users;
mod workspaces;

use crate::app::App;
use crate::auth::{require_admin, require_token};
use crate::door::door;
use crate::problem::ApiError;
use crate::{assets, socket};
use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, delete, get, head, options, patch, post};
use baton_proto::ErrorBody;

pub(crate) use uploads::{PIECE, UPLOADS};

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Anybody.
    Public,
    /// A device with a token.
    Private,
    /// The owner of the hub's data directory.
    Admin,
}

/// One route as it is documented and tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteInfo {
    pub method: &'static str,
    pub path: &'static str,
    pub access: Access,
}

/// Every route of the server.
pub fn routes() -> Vec<RouteInfo> {
    table().into_iter().map(|route| route.info).collect()
}

struct Route {
    info: RouteInfo,
    handler: MethodRouter<App>,
}

fn table() -> Vec<Route> {
    use Access::{Admin, Private, Public};
    let route = |method, path, access, handler| Route { info: RouteInfo { method, path, access }, handler };
    vec![
        route("GET", "/", Public, get(assets::index)),
        route("GET", "/assets/{*name}", Public, get(assets::asset)),
        route("GET", "/icons/{name}", Public, get(assets::icon)),
        route("GET", "/manifest.webmanifest", Public, get(assets::manifest)),
        route("GET", "/service_worker.js", Public, get(assets::service_worker)),
        route("GET", "/healthz", Public, get(health::alive)),
        route("GET", "/readyz", Public, get(health::ready)),
        route("POST", "/v1/pairings", Public, post(pairings::start)),
        route("POST", "/v1/pairings/{pairing}/claim", Public, post(pairings::claim)),
        route("POST", "/v1/invitations/claim", Public, post(invitations::claim)),
        route("GET", "/v1/pairings/{pairing}", Private, get(pairings::preview)),
        route("POST", "/v1/pairings/{pairing}/approve", Private, post(pairings::approve)),
        route("POST", "/v1/invitations", Private, post(invitations::invite)),
        route("GET", "/v1/invitations", Private, get(invitations::list)),
        route("POST", "/v1/invitations/{invitation}/approve", Private, post(invitations::approve)),
        route("POST", "/v1/invitations/{invitation}/refuse", Private, post(invitations::refuse)),
        route("GET", "/v1/hub", Private, get(hub::info)),
        route("GET", "/v1/devices", Private, get(devices::list)),
        route("PATCH", "/v1/devices/{device}", Private, patch(devices::change)),
        route("DELETE", "/v1/devices/{device}", Private, delete(devices::revoke)),
        route("POST", "/v1/signout", Private, post(devices::sign_out)),
        route("GET", "/v1/rules", Private, get(rules::list)),
        route("DELETE", "/v1/rules/{rule}", Private, delete(rules::remove)),
        route("GET", "/v1/usage", Private, get(usage::report)),
        route("GET", "/v1/workspaces", Private, get(workspaces::list)),
        route("GET", "/v1/search", Private, get(search::search)),
        route("GET", "/v1/sessions", Private, get(sessions::list)),
        route("POST", "/v1/sessions/import", Private, post(import::import)),
        route("GET", "/v1/sessions/{session}", Private, get(sessions::view)),
        route("GET", "/v1/sessions/{session}/snapshot", Private, get(sessions::snapshot)),
        route("GET", "/v1/sessions/{session}/brief", Private, get(sessions::brief)),
        route("GET", "/v1/sessions/{session}/history", Private, get(sessions::history)),
        route("GET", "/v1/sessions/{session}/diff", Private, get(diff::diff)),
        route("GET", "/v1/sessions/{session}/file", Private, get(files::file)),
        route("GET", "/v1/sessions/{session}/paths", Private, get(files::paths)),
        route("GET", "/v1/sessions/{session}/events", Private, get(sessions::events)),
        route("OPTIONS", "/v1/uploads", Private, options(uploads::options)),
        route("POST", "/v1/uploads", Private, post(uploads::begin)),
        route("HEAD", "/v1/uploads/{upload}", Private, head(uploads::state)),
        route("PATCH", "/v1/uploads/{upload}", Private, patch(uploads::piece)),
        route("DELETE", "/v1/uploads/{upload}", Private, delete(uploads::end)),
        route("GET", "/v1/blobs/{digest}", Private, get(uploads::blob)),
        route("POST", "/v1/ops", Private, post(operations::operate)),
        route("POST", "/v1/admin/users", Admin, post(users::add)),
        route("GET", "/v1/ws", Private, get(socket::open)),
    ]
}

pub(crate) fn router(app: &App) -> Router {
    let mut router = Router::new();
    for Route { info, handler } in table() {
        let handler = match info.access {
            Access::Public => handler,
            Access::Admin => handler.route_layer(from_fn_with_state(app.clone(), require_admin)),
            Access::Private => handler.route_layer(from_fn_with_state(app.clone(), require_token)),
        };
        router = router.route(info.path, handler);
    }
    router
        .fallback(|| async { ApiError::from(ErrorBody::not_found("route")) })
        .method_not_allowed_fallback(|| async {
            ApiError::with_status(ErrorBody::invalid("This route doesn't take that method."), StatusCode::METHOD_NOT_ALLOWED)
        })
        .layer(from_fn_with_state(app.clone(), door))
        .with_state(app.clone())
}
