//! The supported languages, recognised by file name.

use std::borrow::Cow;
use std::collections::BTreeSet;

use tree_sitter::Language as Grammar;

/// A supported language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Language {
    /// Java.
    Java,
    /// Python.
    Python,
    /// Go.
    Go,
    /// TypeScript.
    TypeScript,
    /// JavaScript, and JSX in either language: TypeScript's grammar for JSX covers all of it.
    JavaScript,
    /// PHP.
    Php,
}

impl Language {
    /// The language of a file by its extension.
    pub fn of(name: &str) -> Option<Language> {
        let file = name.rsplit(['/', '\\']).next()?;
        let (_, extension) = file.rsplit_once('.')?;
        Some(match extension.to_ascii_lowercase().as_str() {
            "java" => Language::Java,
            "py" => Language::Python,
            "go" => Language::Go,
            "ts" | "mts" | "cts" => Language::TypeScript,
            "js" | "mjs" | "cjs" | "jsx" | "tsx" => Language::JavaScript,
            "php" | "phtml" | "inc" => Language::Php,
            _ => return None,
        })
    }

    /// Whether a file contains tests, by the names that the language's test runners look for.
    pub fn is_test(name: &str) -> bool {
        let file = name.rsplit(['/', '\\']).next().unwrap_or(name);
        let Some((stem, _)) = file.rsplit_once('.') else {
            return false;
        };
        match Language::of(file) {
            Some(Language::Go) => stem.ends_with("_test"),
            Some(Language::Python) => {
                stem.starts_with("test_") || stem.ends_with("_test") || stem == "conftest"
            }
            Some(Language::TypeScript | Language::JavaScript) => {
                stem.ends_with(".test") || stem.ends_with(".spec")
            }
            Some(Language::Java) => {
                // `ShopIT` is a test, `AUDIT` is not.
                let of_integration = stem.strip_suffix("IT");
                let ends = ["Test", "Tests", "TestCase"];
                ends.iter().any(|end| stem.ends_with(end))
                    || of_integration.is_some_and(|of| of.ends_with(|c: char| c.is_lowercase()))
            }
            Some(Language::Php) => stem.ends_with("Test"),
            None => false,
        }
    }

    /// The text in a form of the same length that the grammar can parse, where the grammar lags behind the language.
    pub(crate) fn readable(self, text: &str) -> Cow<'_, str> {
        match self {
            Language::Go => pointers_to_values(text),
            _ => Cow::Borrowed(text),
        }
    }

    /// The names under which a file imports packages of the standard library (Go only).
    pub(crate) fn libraries(self, text: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        if self != Language::Go {
            return found;
        }
        let mut within = false;
        for line in text.lines().map(str::trim) {
            let spec = match line.strip_prefix("import") {
                Some(rest) if rest.trim_start().starts_with('(') => {
                    within = true;
                    continue;
                }
                Some(rest) if rest.starts_with(char::is_whitespace) => rest.trim(),
                _ if within => line,
                _ => continue,
            };
            within &= !spec.starts_with(')');
            let mut quoted = spec.split('"');
            let (Some(alias), Some(path)) = (quoted.next(), quoted.next()) else {
                continue;
            };
            let is_own = GO.split(' ').any(|of| of == path);
            let last = path.rsplit('/').next().unwrap_or_default();
            // `math/rand/v2` is imported as `rand`.
            let is_version = last.starts_with('v') && last[1..].parse::<u8>().is_ok();
            let named = match is_version {
                true => path.rsplit('/').nth(1).unwrap_or_default(),
                false => last,
            };
            let name = if alias.trim().is_empty() {
                named
            } else {
                alias.trim()
            };
            if is_own && name != "." && name != "_" {
                found.insert(name.to_owned());
            }
        }
        found
    }

    pub(crate) fn grammar(self) -> Grammar {
        match self {
            Language::Java => tree_sitter_java::LANGUAGE.into(),
            Language::Python => tree_sitter_python::LANGUAGE.into(),
            Language::Go => tree_sitter_go::LANGUAGE.into(),
            Language::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
            Language::JavaScript => tree_sitter_typescript::LANGUAGE_TSX.into(),
            Language::Php => tree_sitter_php::LANGUAGE_PHP.into(),
        }
    }
}

/// Go's standard library.
const GO: &str = "archive/tar archive/zip bufio bytes cmp compress/bzip2 compress/flate compress/gzip compress/lzw \
    compress/zlib container/heap container/list container/ring context crypto crypto/aes crypto/cipher \
    crypto/des crypto/dsa crypto/ecdh crypto/ecdsa crypto/ed25519 crypto/elliptic crypto/fips140 \
    crypto/hkdf crypto/hmac crypto/hpke crypto/md5 crypto/mlkem crypto/mlkem/mlkemtest crypto/pbkdf2 \
    crypto/rand crypto/rc4 crypto/rsa crypto/sha1 crypto/sha256 crypto/sha3 crypto/sha512 crypto/subtle \
    crypto/tls crypto/x509 crypto/x509/pkix database/sql database/sql/driver debug/buildinfo debug/dwarf \
    debug/elf debug/gosym debug/macho debug/pe debug/plan9obj embed encoding encoding/ascii85 \
    encoding/asn1 encoding/base32 encoding/base64 encoding/binary encoding/csv encoding/gob encoding/hex \
    encoding/json encoding/pem encoding/xml errors expvar flag fmt go/ast go/build go/build/constraint \
    go/constant go/doc go/doc/comment go/format go/importer go/parser go/printer go/scanner go/token \
    go/types go/version hash hash/adler32 hash/crc32 hash/crc64 hash/fnv hash/maphash html html/template \
    image image/color image/color/palette image/draw image/gif image/jpeg image/png index/suffixarray io \
    io/fs io/ioutil iter log log/slog log/syslog maps math math/big math/bits math/cmplx math/rand \
    math/rand/v2 mime mime/multipart mime/quotedprintable net net/http net/http/cgi net/http/cookiejar \
    net/http/fcgi net/http/httptest net/http/httptrace net/http/httputil net/http/pprof net/mail \
    net/netip net/rpc net/rpc/jsonrpc net/smtp net/textproto net/url os os/exec os/signal os/user path \
    path/filepath plugin reflect regexp regexp/syntax runtime runtime/cgo runtime/coverage runtime/debug \
    runtime/metrics runtime/pprof runtime/race runtime/trace slices sort strconv strings structs sync \
    sync/atomic syscall testing testing/cryptotest testing/fstest testing/iotest testing/quick \
    testing/slogtest testing/synctest text/scanner text/tabwriter text/template text/template/parse time \
    time/tzdata unicode unicode/utf16 unicode/utf8 unique unsafe weak";

/// Rewrites Go's `new` of a value (Go 1.26) as a call, since the grammar accepts types only.
fn pointers_to_values(text: &str) -> Cow<'_, str> {
    const NEW: &str = "new(";
    let mut found: Vec<usize> = Vec::new();
    for (at, _) in text.match_indices(NEW) {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let inside = !text[..at].ends_with(|c: char| is_word(c) || c == '.');
        if inside && is_value(text[at + NEW.len()..].trim_start()) {
            found.push(at);
        }
    }
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut read = text.to_owned();
    for at in found {
        read.replace_range(at..at + 3, "NEW");
    }
    Cow::Owned(read)
}

/// Whether the argument of `new(` is a value rather than a type.
fn is_value(argument: &str) -> bool {
    const TYPES: [&str; 5] = ["struct", "map", "func", "chan", "interface"];
    if argument.starts_with(['"', '`', '\'', '-', '!', '&']) {
        return true;
    }
    if argument.starts_with(|c: char| c.is_ascii_digit()) {
        return true;
    }
    let name = argument.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'));
    let (name, rest) = argument.split_at(name.unwrap_or(argument.len()));
    let called = rest.starts_with(['(', '{', '+', '-', ' ']);
    !name.is_empty() && called && !TYPES.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_to_a_value_is_read_as_a_call() {
        let text = "a(new(\"x\"), new(T), new(p.T), new(f(x)), new(1), renew(\"y\"), new(map[k]v), new(struct {}))";
        let read = Language::Go.readable(text);
        let expected = "a(NEW(\"x\"), new(T), new(p.T), NEW(f(x)), NEW(1), renew(\"y\"), new(map[k]v), new(struct {}))";
        assert_eq!(read, expected);
    }

    #[test]
    fn packages_of_the_library_are_known() {
        let text = "package a\nimport \"os\"\nimport (\n\t\"fmt\"\n\tr \"math/rand/v2\"\n\t\"go/ast\"\n\t_ \"embed\"\n\t\"shop/log\"\n\t\"github.com/a/flag\"\n\t. \"math\"\n)\nvar x = \"net\"\n";
        let found: Vec<String> = Language::Go.libraries(text).into_iter().collect();
        assert_eq!(found, ["ast", "fmt", "os", "r"]);
    }

    #[test]
    fn tests_are_known_by_the_names_that_runners_look_for() {
        for (name, is) in [
            ("a/b_test.go", true),
            ("a/test_b.py", true),
            ("a/conftest.py", true),
            ("a/b.spec.ts", true),
            ("a/b.test.jsx", true),
            ("a/ShopIT.java", true),
            ("a/ShopTest.php", true),
            ("a/latest.go", false),
            ("a/contest.py", false),
            ("test/shop.py", false),
            ("a/spec.ts", false),
            ("a/Testing.java", false),
            ("a/AUDIT.java", false),
        ] {
            assert_eq!(Language::is_test(name), is, "{name}");
        }
    }
}
