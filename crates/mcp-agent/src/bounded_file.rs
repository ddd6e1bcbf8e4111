//! Reads files of a bounded size. A pipe or a device would block the reader.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

/// Reads a regular file of at most `limit` bytes. The kind of the error is `FileTooLarge` for a larger file.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let irregular = || io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file");
    // The check comes before the open, because the open of a pipe waits for a writer.
    if !fs::metadata(path)?.is_file() {
        return Err(irregular());
    }
    let file = fs::File::open(path)?;
    // Another program can replace the file between the check and the open.
    if !file.metadata()?.is_file() {
        return Err(irregular());
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {limit} bytes")));
    }
    Ok(bytes)
}

/// Reads a regular file of at most `limit` bytes as UTF-8. The kind of the error is `InvalidData` for another encoding.
pub(crate) fn read_text(path: &Path, limit: u64) -> io::Result<String> {
    let bytes = read(path, limit)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_up_to_the_limit_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "1234").unwrap();
        assert_eq!(read_text(&path, 4).unwrap(), "1234");
        assert!(read(&path, 3).unwrap_err().to_string().contains("more than 3 bytes"));
        fs::write(&path, b"\xff").unwrap();
        assert!(read_text(&path, 4).unwrap_err().to_string().contains("UTF-8"));
        assert!(read(directory.path(), 4).unwrap_err().to_string().contains("regular file"));
        assert_eq!(read(&directory.path().join("none"), 4).unwrap_err().kind(), io::ErrorKind::NotFound);
        #[cfg(unix)]
        assert!(read(Path::new("/dev/zero"), 4).unwrap_err().to_string().contains("regular file"));
    }
}
