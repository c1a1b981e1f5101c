//! TLS to a live PostgreSQL: each `sslmode` works as PostgreSQL's manual says, and a server with a wrong certificate
//! is refused.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anabranch_dbms::postgres::{Server, Settings};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};

/// The lines of pg_hba.conf. Only the test itself connects by the socket.
const ENTRIES: &str = "\
local all all trust
hostssl all shown 127.0.0.1/32 cert
hostssl all secret 127.0.0.1/32 scram-sha-256
hostnossl all open 127.0.0.1/32 trust
hostssl all anabranch 127.0.0.1/32 trust
";

/// Certificates and keys, and the server that has some of them.
struct Setting {
    server: Server,
    folder: PathBuf,
    authority: CertifiedIssuer<'static, KeyPair>,
}

fn key() -> KeyPair {
    KeyPair::generate().expect("a key can be made")
}

/// The parameters of a certificate: its subject and its alternative names.
fn params(subject: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names are names");
    params.distinguished_name.push(DnType::CommonName, subject);
    params
}

fn authority(subject: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = params(subject, &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    CertifiedIssuer::self_signed(params, key()).expect("it can be signed")
}

impl Setting {
    fn new(name: &str) -> Setting {
        let server = Server::start(Settings {
            has_port: true,
            ..Settings::default()
        });
        let server = server.unwrap_or_else(|error| panic!("{error}"));
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join(".postgresql")).expect("a folder can be made");
        let setting = Setting {
            server,
            folder,
            authority: authority("the authority"),
        };
        setting.run(
            "CREATE ROLE shown LOGIN; CREATE ROLE open LOGIN; \
             SET password_encryption = 'scram-sha-256'; CREATE ROLE secret LOGIN PASSWORD 'sesame'; \
             CREATE TABLE t (id integer PRIMARY KEY); \
             CREATE PROCEDURE p(i integer) LANGUAGE sql BEGIN ATOMIC INSERT INTO t VALUES (i); END",
        );
        setting
            .server
            .put("pg_hba.conf", ENTRIES)
            .expect("it takes files");
        setting.write("authority.crt", &setting.authority.pem());
        setting.write("other.crt", &authority("another").pem());
        setting.serves(params("a server", &["127.0.0.1"]));
        setting
    }

    fn run(&self, text: &str) {
        let mut client = self.server.connect().expect("it lets in");
        client
            .batch_execute(text)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
    }

    /// Changes a setting of the server, and waits until new connections have it.
    fn set(&self, name: &str, value: &str) {
        self.run(&format!("ALTER SYSTEM SET {name} = '{value}'"));
        self.run("SELECT pg_reload_conf()");
        loop {
            let mut client = self.server.connect().expect("it lets in");
            let row = client
                .query_one(&format!("SHOW {name}"), &[])
                .expect("it answers");
            if row.get::<_, String>(0) == value {
                return;
            }
        }
    }

    /// Gives the server a certificate, signed by the authority.
    fn serves(&self, params: CertificateParams) {
        let key = key();
        let certificate = params
            .signed_by(&key, &self.authority)
            .expect("it can be signed");
        self.serves_as(&certificate.pem(), &key);
    }

    fn serves_as(&self, certificate: &str, key: &KeyPair) {
        // New file names, so that the server reads the new files.
        static USED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let n = USED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (certificate_name, key_name) = (format!("server{n}.crt"), format!("server{n}.key"));
        let put = |name: &str, text: &str| self.server.put(name, text).expect("it takes files");
        put(&certificate_name, certificate);
        put(&key_name, &key.serialize_pem());
        put("clients.crt", &self.authority.pem());
        for (name, value) in [
            ("ssl_key_file", &*key_name),
            ("ssl_ca_file", "clients.crt"),
            ("ssl", "on"),
            ("ssl_cert_file", &certificate_name),
        ] {
            self.run(&format!("ALTER SYSTEM SET {name} = '{value}'"));
        }
        self.set("ssl_cert_file", &certificate_name);
    }

    fn path(&self, name: &str) -> String {
        self.folder
            .join(name)
            .to_str()
            .expect("it is text")
            .to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).expect("it can be written");
        self.permit(name, 0o600);
    }

    fn permit(&self, name: &str, mode: u32) {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(self.folder.join(name), permissions).expect("it is ours");
    }

    /// Analyses the database as that user, with those parameters; FILE in them is in our folder. Says how it ended and
    /// what it said of it.
    fn analyze(
        &self,
        user: &str,
        host: &str,
        parameters: &str,
        environment: &[(&str, &str)],
    ) -> (i32, String) {
        let folder = self.path("").replace('/', "%2F");
        let address = format!(
            "postgresql://{user}@{host}:{}/postgres?{}",
            self.server.port(),
            parameters.replace("FILE:", &folder)
        );
        let mut command = Command::new(env!("CARGO_BIN_EXE_anabranch"));
        let unset =
            std::env::vars().filter(|(name, _)| name.starts_with("PG") || name.starts_with("SSL_"));
        for (name, _) in unset {
            command.env_remove(name);
        }
        let output = command
            .args(["analyze", "--no-counterexamples", &address])
            .env("HOME", &self.folder)
            .envs(environment.iter().copied())
            .output()
            .expect("the command starts");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!text.contains("sesame"), "{text}");
        (output.status.code().expect("it is not killed"), text)
    }

    fn is_read(&self, user: &str, parameters: &str) {
        self.is_read_at("127.0.0.1", user, parameters, &[]);
    }

    fn is_read_at(&self, host: &str, user: &str, parameters: &str, environment: &[(&str, &str)]) {
        let (code, text) = self.analyze(user, host, parameters, environment);
        assert!(code < 2, "{user} {parameters}: {text}");
    }

    fn is_refused(&self, user: &str, parameters: &str, words: &[&str]) {
        self.is_refused_at("127.0.0.1", user, parameters, words, &[]);
    }

    fn is_refused_at(
        &self,
        host: &str,
        user: &str,
        parameters: &str,
        words: &[&str],
        environment: &[(&str, &str)],
    ) {
        let (code, text) = self.analyze(user, host, parameters, environment);
        assert_eq!(code, 2, "{user} {parameters}: {text}");
        for word in words {
            assert!(
                text.contains(word),
                "{user} {parameters}: {word} in: {text}"
            );
        }
    }
}

#[test]
fn each_mode_demands_what_it_says() {
    let setting = Setting::new("tls-modes");
    // The user `anabranch` may connect only by TLS, `open` only without.
    for mode in ["allow", "prefer", "require"] {
        setting.is_read("anabranch", &format!("sslmode={mode}"));
    }
    setting.is_read("anabranch", "");
    setting.is_refused(
        "anabranch",
        "sslmode=disable",
        &["28000", "no encryption", "sslmode=require"],
    );
    for mode in ["disable", "allow", "prefer"] {
        setting.is_read("open", &format!("sslmode={mode}"));
    }
    setting.is_refused("open", "sslmode=require", &["28000"]);
    // From the environment, and with a parameter that overrides it.
    let demands = [("PGSSLMODE", "require")];
    setting.is_refused_at("127.0.0.1", "open", "", &["28000"], &demands);
    setting.is_read_at("127.0.0.1", "open", "sslmode=disable", &demands);

    // A server without TLS is refused if TLS is demanded.
    setting.set("ssl", "off");
    setting.is_read("open", "sslmode=prefer");
    setting.is_refused(
        "open",
        "sslmode=require",
        &["does not support TLS", "ssl=on"],
    );
    setting.is_refused(
        "open",
        "sslmode=verify-full&sslrootcert=FILE:authority.crt",
        &["does not support TLS"],
    );
}

#[test]
fn a_server_with_a_wrong_certificate_is_refused() {
    let setting = Setting::new("tls-verified");
    let full = "sslmode=verify-full&sslrootcert=FILE:authority.crt";
    let authority = "sslmode=verify-ca&sslrootcert=FILE:authority.crt";
    setting.is_read("anabranch", full);
    setting.is_read("anabranch", authority);
    // Another authority, in every mode that verifies.
    for mode in ["require", "verify-ca", "verify-full"] {
        let parameters = format!("sslmode={mode}&sslrootcert=FILE:other.crt");
        setting.is_refused("anabranch", &parameters, &["UnknownIssuer", "sslrootcert"]);
    }
    setting.is_refused(
        "anabranch",
        "sslmode=verify-full",
        &["none is named", "root.crt"],
    );
    setting.is_refused(
        "anabranch",
        "sslmode=require&sslrootcert=FILE:missing.crt",
        &["missing.crt cannot be read"],
    );
    setting.write("empty.crt", "no certificate\n");
    setting.is_refused(
        "anabranch",
        "sslmode=require&sslrootcert=FILE:empty.crt",
        &["no certificate in PEM"],
    );
    // The authorities of the machine: none signed the certificate, except one that the test adds.
    let of_system = "sslrootcert=system";
    setting.is_refused_at(
        "127.0.0.1",
        "anabranch",
        of_system,
        &[],
        &[("SSL_CERT_FILE", &setting.path("other.crt"))],
    );
    setting.is_read_at(
        "127.0.0.1",
        "anabranch",
        of_system,
        &[("SSL_CERT_FILE", &setting.path("authority.crt"))],
    );
    // The default file.
    setting.write(".postgresql/root.crt", &setting.authority.pem());
    setting.is_read("anabranch", "sslmode=verify-full");
    setting.write(
        ".postgresql/root.crt",
        &std::fs::read_to_string(setting.path("other.crt")).expect("it is there"),
    );
    setting.is_refused("anabranch", "sslmode=require", &["UnknownIssuer"]);
    std::fs::remove_file(setting.path(".postgresql/root.crt")).expect("it is there");

    // A certificate for another name; its common name does not count.
    setting.serves(params("127.0.0.1", &["db.example"]));
    setting.is_refused("anabranch", full, &["another name", "verify-ca"]);
    setting.is_read("anabranch", authority);
    // By a name, with its address as a parameter.
    let told = format!("{full}&hostaddr=127.0.0.1");
    setting.is_read_at("db.example", "anabranch", &told, &[]);
    setting.is_refused_at("db2.example", "anabranch", &told, &["another name"], &[]);

    // Expired.
    let mut expired = params("a server", &["127.0.0.1"]);
    expired.not_before = date_time_ymd(2020, 1, 1);
    expired.not_after = date_time_ymd(2021, 1, 1);
    setting.serves(expired);
    setting.is_refused("anabranch", authority, &["expired"]);
    setting.is_read("anabranch", "sslmode=require");

    // Revoked.
    let mut taken_back = params("a server", &["127.0.0.1"]);
    let serial = SerialNumber::from(4711);
    taken_back.serial_number = Some(serial.clone());
    setting.serves(taken_back);
    let list = |serial: SerialNumber| {
        let revoked = RevokedCertParams {
            serial_number: serial,
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2034, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list
            .signed_by(&setting.authority)
            .expect("it can be signed");
        list.pem().expect("it can be written")
    };
    setting.write("lists.crl", &list(serial));
    setting.write("others.crl", &list(SerialNumber::from(1)));
    setting.is_read("anabranch", full);
    setting.is_refused(
        "anabranch",
        &format!("{full}&sslcrl=FILE:lists.crl"),
        &["is revoked"],
    );
    setting.is_read("anabranch", &format!("{full}&sslcrl=FILE:others.crl"));
}

#[test]
fn a_self_signed_certificate_is_trusted_if_it_is_named() {
    let setting = Setting::new("tls-own");
    let full = "sslmode=verify-full&sslrootcert=FILE:own.crt";
    let mut of_authority = params("a server", &["127.0.0.1"]);
    of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let mut expired = of_authority.clone();
    expired.not_after = date_time_ymd(2021, 1, 1);
    let mut elsewhere = params("a server", &["db.example"]);
    elsewhere.is_ca = of_authority.is_ca;
    for (params, word) in [
        (params("a server", &["127.0.0.1"]), ""),
        (of_authority, ""),
        (expired, "expired"),
        (elsewhere, "another name"),
    ] {
        let key = key();
        let certificate = params.self_signed(&key).expect("it can be signed");
        setting.write("own.crt", &certificate.pem());
        setting.serves_as(&certificate.pem(), &key);
        match word {
            "" => setting.is_read("anabranch", full),
            word => setting.is_refused("anabranch", full, &[word]),
        }
        setting.is_refused(
            "anabranch",
            "sslmode=verify-ca&sslrootcert=FILE:other.crt",
            &[],
        );
    }
}

#[test]
fn a_client_certificate_is_presented() {
    let setting = Setting::new("tls-shown");
    let key = key();
    let certificate = params("shown", &[]).signed_by(&key, &setting.authority);
    setting.write("shown.crt", &certificate.expect("it can be signed").pem());
    setting.write("shown.key", &key.serialize_pem());
    let shown = "sslmode=require&sslcert=FILE:shown.crt&sslkey=FILE:shown.key";
    setting.is_read("shown", shown);
    setting.is_refused("shown", "sslmode=require", &["certificate", "sslcert=FILE"]);
    setting.is_refused(
        "shown",
        "sslmode=require&sslcert=FILE:shown.crt",
        &["sslkey=FILE"],
    );
    // The key of another certificate, one that other users can read, and none.
    setting.write("other.key", &self::key().serialize_pem());
    setting.is_refused(
        "shown",
        &shown.replace("shown.key", "other.key"),
        &["do not match"],
    );
    setting.is_refused(
        "shown",
        &shown.replace("shown.key", "other.crt"),
        &["no private key in PEM"],
    );
    setting.permit("shown.key", 0o644);
    setting.is_refused("shown", shown, &["chmod 600"]);
    setting.permit("shown.key", 0o600);
    // The default files.
    for name in ["crt", "key"] {
        let text =
            std::fs::read_to_string(setting.path(&format!("shown.{name}"))).expect("it is there");
        setting.write(&format!(".postgresql/postgresql.{name}"), &text);
    }
    setting.is_read("shown", "sslmode=require");
}

#[test]
fn passwords_are_bound_to_the_channel_and_old_protocols_refused() {
    let setting = Setting::new("tls-bound");
    let password = [("PGPASSWORD", "sesame")];
    let bound = "sslmode=require&channel_binding=require";
    setting.is_read_at("127.0.0.1", "secret", bound, &password);
    setting.is_refused_at(
        "127.0.0.1",
        "secret",
        bound,
        &["28P01", "PGPASSWORD"],
        &[("PGPASSWORD", "other")],
    );
    let in_the_clear = [("PGPASSWORD", "sesame"), ("PGCHANNELBINDING", "require")];
    setting.is_read_at("127.0.0.1", "secret", "sslmode=require", &in_the_clear);
    setting.is_refused_at("127.0.0.1", "secret", "sslmode=disable", &[], &in_the_clear);

    setting.set("ssl_max_protocol_version", "TLSv1.2");
    setting.is_read("anabranch", "sslmode=require");
    setting.is_read(
        "anabranch",
        "sslmode=require&ssl_min_protocol_version=TLSv1.2",
    );
    setting.is_refused(
        "anabranch",
        "sslmode=require&ssl_min_protocol_version=TLSv1.3",
        &["TLS"],
    );
}
