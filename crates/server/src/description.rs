//! What the file `cluster` of a server's data folder says: one line of JSON with a checksum.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::checksum::checksum;
use crate::data::{CLUSTER, generation_folder};

/// The version of this layout.
pub(crate) const FORMAT: u64 = 2;

/// The key of the description's own checksum, which covers the rest of it.
pub(crate) const CHECKSUM: &str = "checksum";

/// The description in the text of the file `cluster`, or what is wrong with it. One of an older layout has no checksum.
pub(crate) fn described(text: &str) -> Result<Value, &'static str> {
    let mut described: Value = serde_json::from_str(text)
        .map_err(|_| "it does not describe a database that a server keeps")?;
    if described["format"].as_u64() == Some(FORMAT) || described.get(CHECKSUM).is_some() {
        let found = described
            .as_object_mut()
            .and_then(|all| all.remove(CHECKSUM));
        let expected = checksum(described.to_string().as_bytes());
        if found.as_ref().and_then(Value::as_str) != Some(&*expected) {
            return Err("its checksum is wrong");
        }
    }
    Ok(described)
}

/// The key of the generation; one without is the first.
pub(crate) const GENERATION: &str = "generation";

pub(crate) fn generation_of(described: &Value) -> u64 {
    described[GENERATION].as_u64().unwrap_or(0)
}

/// The folder of the nodes and the application in a data folder, and the description of a database whose nodes lie in the
/// folder itself.
///
/// # Errors
/// When the description cannot be read.
pub(crate) fn flattened(folder: &Path) -> std::io::Result<(PathBuf, String)> {
    let text = std::fs::read_to_string(folder.join(CLUSTER))?;
    let mut described = described(&text).map_err(std::io::Error::other)?;
    let inner = generation_folder(folder, generation_of(&described));
    if let Some(all) = described.as_object_mut() {
        all.remove(GENERATION);
    }
    Ok((inner, with_checksum(described)))
}

pub(crate) fn with_checksum(mut description: Value) -> String {
    description[CHECKSUM] = Value::from(checksum(description.to_string().as_bytes()));
    description.to_string()
}

pub(crate) fn number_of_partitions(described: &Value) -> Option<u16> {
    let count = described["partitions"].as_u64()?;
    u16::try_from(count).ok().filter(|count| *count > 0)
}
