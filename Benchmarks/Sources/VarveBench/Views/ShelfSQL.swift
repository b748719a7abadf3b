#if SQLite || GRDB
  /// The index and the statements of the view workloads, which are the same with SQLite's C API and with GRDB.
  enum ShelfSQL {
    static let createIndex = "CREATE INDEX IF NOT EXISTS shelf ON book (year, title, id)"

    static let update = """
      UPDATE book SET title = ?, author = ?, summary = ?, year = ?, price = ?, updated = ?, isRead = ? WHERE id = ?
      """

    static let entry = "SELECT id FROM book WHERE year = ? ORDER BY title, id LIMIT 1 OFFSET ?"
    static let offset = """
      SELECT count(*) FROM book AS found JOIN book AS earlier ON earlier.year = found.year
        AND (earlier.title, earlier.id) < (found.title, found.id)
      WHERE found.id = ?
      """
    static let number = """
      WITH found AS (SELECT id, year FROM book WHERE id = ?)
      SELECT number - 1 FROM (
        SELECT id, row_number() OVER (ORDER BY title, id) AS number FROM book
        WHERE year = (SELECT year FROM found)
      ) WHERE id = (SELECT id FROM found)
      """
    static let group = "SELECT count(*) FROM book WHERE year = ?"
    static let range = "SELECT count(*) FROM book WHERE year = ? AND title >= ?"
    static let scan = "SELECT id FROM book ORDER BY year, title, id"
    static let window = "SELECT id FROM book ORDER BY year, title, id LIMIT ?"
  }
#endif
