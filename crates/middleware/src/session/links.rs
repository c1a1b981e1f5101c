//! Connections to the middlewares of other servers, on behalf of one client.

use anabranch_protocol::belt::{Hop, ServerId};
use anabranch_wire::ErrorFields;

use super::unit::OnServer;
use super::{Failure, Session};
use crate::backend::{Backend, Destination, password};
use crate::shared::Shared;

/// The parameter by which a middleware says that it forwards.
pub(super) const FORWARDED: &str = "anabranch.forwarded";

/// A connection to another server's middleware.
pub(super) struct Link {
    pub(super) backend: Backend,
    pub(super) on_server: OnServer,
    /// How many of the session's settings it has.
    settings: usize,
    /// What was committed under this hold and before is on its server.
    pub(super) has: Hop,
}

impl Link {
    /// The settings were all taken back, and are counted anew.
    pub(super) fn forget_settings(&mut self) {
        self.settings = 0;
    }

    /// The setting behind the first `kept` ones is another now.
    pub(super) fn forget_last_setting(&mut self, kept: usize) {
        self.settings = self.settings.min(kept);
    }
}

/// What a client is told when another server's middleware is not reached.
pub(super) fn unreachable(shared: &Shared, server: ServerId, why: &str) -> Failure {
    let name = shared.name_of(server);
    ErrorFields::error(
        "08006",
        format!(
            "the rows of this operation are on {name}, and its middleware is not reached: {why}"
        ),
    )
    .with_hint("Nothing was sent to it. Try again once it runs.")
    .into()
}

/// What a client is told when the connection to another server's middleware is lost while a statement runs there.
pub(super) fn lost(shared: &Shared, server: ServerId, why: &str) -> Failure {
    let name = shared.name_of(server);
    ErrorFields::error(
        "08006",
        format!("the connection to the middleware of {name} was lost while an operation ran there: {why}"),
    )
    .with_hint("The operation may have been done: read before you repeat it.")
    .into()
}

impl Session {
    /// Connects to a server's middleware, unless that was done, and brings it up to date with the client's settings.
    pub(super) fn link(&mut self, server: ServerId) -> Result<(), Failure> {
        if !self.links.contains_key(&server) {
            let link = self.connect(server)?;
            self.links.insert(server, link);
        }
        let Some(link) = self.links.get_mut(&server) else {
            return Ok(());
        };
        for setting in self.settings.iter().skip(link.settings) {
            match link.backend.run(setting) {
                Ok(Ok(())) => link.settings += 1,
                // It was fine on the own server.
                Ok(Err(error)) => {
                    let message = error.field(b'M').unwrap_or_default();
                    let why = format!("it refuses {setting}: {message}");
                    self.links.remove(&server);
                    return Err(unreachable(&self.shared, server, &why));
                }
                Err(error) => {
                    self.links.remove(&server);
                    return Err(unreachable(&self.shared, server, &error.to_string()));
                }
            }
        }
        Ok(())
    }

    fn connect(&self, server: ServerId) -> Result<Link, Failure> {
        let shared = &self.shared;
        let Some(entry) = shared.site(server) else {
            return Err(unreachable(
                shared,
                server,
                "it is not in the list of servers",
            ));
        };
        let address = entry.address.as_str();
        let (host, port) = address.rsplit_once(':').unwrap_or((address, "5432"));
        let database = &entry.database_name;
        let mut parameters = vec![
            ("user", self.role.as_str()),
            ("database", database.as_str()),
            ("application_name", "anabranch"),
            (FORWARDED, "on"),
        ];
        parameters.extend(
            self.parameters
                .iter()
                .map(|(n, v)| (n.as_str(), v.as_str())),
        );
        let password = password(host, port, database, &self.role);
        let connected = Backend::connect(Destination::Middleware(address.to_owned()), &parameters)
            .and_then(|mut backend| {
                backend.authenticate(&self.role, password.as_deref())?;
                Ok(backend)
            });
        match connected {
            Ok(backend) => Ok(Link {
                backend,
                on_server: OnServer::new(),
                settings: 0,
                has: Hop(0),
            }),
            Err(error) => Err(unreachable(shared, server, &error.to_string())),
        }
    }
}
