//! Keys and values from a file, for `--data-import`.

use std::path::Path;

use crate::error::Error;

/// Most bytes of keys and values together.
const BYTES_MAX: usize = 4 << 30;

/// Keys, each with its value, in the order of their file. At least one.
#[derive(Clone, Debug)]
pub struct Items {
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    key: Box<[u8]>,
    data: Box<[u8]>,
}

impl Items {
    /// Reads comma-separated values. The first line names the columns: `key`, and `data` or `value`; others, as
    /// memtier_benchmark writes them, are left out.
    ///
    /// # Errors
    /// The file cannot be read, has not these columns or no row, or is too large.
    pub fn read(path: &Path) -> Result<Items, Error> {
        let wrong = |what: String| Error::Options(format!("{}: {what}", path.display()));
        let file = std::fs::File::open(path).map_err(|error| Error::file(path, error))?;
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::Headers).from_reader(std::io::BufReader::new(file));
        let heads = reader.headers().map_err(|error| wrong(error.to_string()))?;
        let column = |names: &[&str]| heads.iter().position(|head| names.contains(&head));
        let (Some(key), Some(data)) = (column(&["key"]), column(&["data", "value"])) else {
            return Err(wrong("its first line names no columns 'key' and 'data'".into()));
        };
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for record in reader.byte_records() {
            let record = record.map_err(|error| wrong(error.to_string()))?;
            let field = |column: usize| -> Box<[u8]> { record.get(column).unwrap_or_default().into() };
            let row = Row { key: field(key), data: field(data) };
            bytes += row.key.len() + row.data.len();
            if bytes > BYTES_MAX || rows.len() == u32::MAX as usize {
                return Err(wrong(format!("more than {} GB of keys and values", BYTES_MAX >> 30)));
            }
            rows.push(row);
        }
        if rows.is_empty() { Err(wrong("no row".into())) } else { Ok(Items { rows }) }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// A key and its value.
    pub fn row(&self, index: usize) -> (&[u8], &[u8]) {
        let Row { key, data } = &self.rows[index];
        (key, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<Items, String> {
        let path = std::env::temp_dir().join(format!("onrush-items-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let items = Items::read(&path).map_err(|error| error.to_string());
        std::fs::remove_file(&path).unwrap();
        items
    }

    #[test]
    fn keys_and_values_are_those_of_the_columns() {
        let items = read("good", "dumpflags, nkey, key, data\n0,3,k:1,\"a,\"\"b\nc\"\n0,3,k:2,\n").unwrap();
        assert_eq!(items.len(), 2);
        assert_eq!(items.row(0), (&b"k:1"[..], &b"a,\"b\nc"[..]));
        assert_eq!(items.row(1), (&b"k:2"[..], &b""[..]));
        assert_eq!(read("other", "value,key\n7,x\n").unwrap().row(0), (&b"x"[..], &b"7"[..]));
    }

    #[test]
    fn what_cannot_be_imported_is_told() {
        assert!(read("columns", "a,b\n1,2\n").unwrap_err().contains("'key' and 'data'"));
        assert!(read("rows", "key,data\n").unwrap_err().contains("no row"));
        assert!(read("fields", "key,data\nx\n").is_err());
        assert!(Items::read(Path::new("/nonexistent/items.csv")).unwrap_err().to_string().contains("items.csv"));
    }
}
