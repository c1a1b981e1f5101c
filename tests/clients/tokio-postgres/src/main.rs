//! tokio-postgres against a server: `anabranch-client-tokio-postgres HOST PORT [--transactions] [--schema]`.
//!
//! `--transactions` adds transactions of several statements: BEGIN,
//! savepoints, portals in portions.

mod checks;
mod failures;
mod schema;
mod statements;
mod types;
mod values;

use std::process::ExitCode;

use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, Connection, Error, Socket};

use checks::{Checks, described};

#[cfg(feature = "tls")]
fn tls() -> tokio_postgres_rustls::MakeRustlsConnect {
    // No certificate is trusted: a server that answers with TLS is not the one that is tested.
    let provider = rustls::crypto::ring::default_provider();
    let config = rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .expect("ring has these versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    tokio_postgres_rustls::MakeRustlsConnect::new(config)
}

#[cfg(not(feature = "tls"))]
fn tls() -> tokio_postgres::NoTls {
    tokio_postgres::NoTls
}

/// Connects and serves the connection in the background; `inspect` sees it before.
async fn connect<T>(
    config: &Config,
    inspect: impl FnOnce(&dyn Fn(&str) -> Option<String>) -> T,
) -> Result<(Client, T), Error> {
    let (client, connection) = config.connect(tls()).await?;
    let seen = inspect(&|name| connection.parameter(name).map(str::to_owned));
    serve(connection);
    Ok((client, seen))
}

fn serve<S>(connection: Connection<Socket, S>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            println!("the connection ended: {}", described(&error));
        }
    });
}

async fn connecting(checks: &mut Checks, config: &Config) -> Result<(), Error> {
    const NAMES: [&str; 9] = [
        "server_version",
        "client_encoding",
        "server_encoding",
        "DateStyle",
        "IntervalStyle",
        "integer_datetimes",
        "standard_conforming_strings",
        "TimeZone",
        "is_superuser",
    ];
    let (client, found) = connect(config, |parameter| NAMES.map(parameter)).await?;
    let mut found = found.into_iter();
    let version = found.next().flatten().unwrap_or_default();
    println!("server_version: {version}");
    let major = version.split(['.', ' ']).next();
    checks.equal("connect: version", major, Some("15"));
    let expected = ["UTF8", "UTF8", "ISO, MDY", "postgres", "on", "on", "UTC"];
    for ((name, expected), got) in NAMES[1..].iter().zip(expected).zip(found) {
        checks.equal(&format!("connect: parameter {name}"), got, Some(expected));
    }
    let shown = types::simple(&client, "SHOW server_version").await;
    checks.attempt("connect: server_version by SHOW", shown, Some(version));
    let alive = client.check_connection().await;
    checks.attempt("connect: check_connection", alive, ());

    let mut config = config.clone();
    config
        .application_name("checks")
        .options("-c TimeZone=Asia/Tokyo -c statement_timeout=60000");
    let (client, found) = connect(&config, |parameter| {
        (parameter("application_name"), parameter("TimeZone"))
    })
    .await?;
    let expected = (Some("checks"), Some("Asia/Tokyo"));
    checks.equal("connect: options are reported", found, expected);
    let shown = types::simple(&client, "SHOW statement_timeout").await;
    checks.attempt("connect: statement_timeout", shown, Some("1min"));
    Ok(())
}

async fn run(checks: &mut Checks, config: &Config, flags: &[String]) -> Result<(), Error> {
    let has = |name: &str| flags.iter().any(|flag| flag == name);
    connecting(checks, config).await?;
    let (mut client, ()) = connect(config, |_| ()).await?;
    types::types(checks, &client).await;
    types::tables(checks, &client).await;
    statements::zones(checks, &client).await?;
    statements::calls(checks, &client).await;
    failures::failures(checks, &client).await;
    statements::prepared(checks, &client).await;
    statements::cancelled(checks, &client).await;
    // They read on one connection what another has written and not committed: under locks, such a program waits for
    // itself, and the harness leaves the flag out.
    if has("--transactions") {
        let (other, ()) = connect(config, |_| ()).await?;
        statements::transactions(checks, &mut client, &other).await?;
    }
    if has("--schema") {
        schema::schema(checks, &mut client).await?;
    }
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (host, port, flags) = match arguments.as_slice() {
        [host, port, flags @ ..] => (host, port.parse(), flags),
        _ => {
            eprintln!(
                "usage: anabranch-client-tokio-postgres HOST PORT [--transactions] [--schema]"
            );
            return ExitCode::from(2);
        }
    };
    let Ok(port) = port else {
        eprintln!("the port is not a number");
        return ExitCode::from(2);
    };
    let mut config = Config::new();
    config
        .host(host)
        .port(port)
        .user("anabranch")
        .dbname("anabranch")
        .ssl_mode(SslMode::Prefer);
    let mut checks = Checks::default();
    if let Err(error) = run(&mut checks, &config, flags).await {
        checks.equal("the program runs to its end", described(&error), "");
    }
    checks.finish()
}
