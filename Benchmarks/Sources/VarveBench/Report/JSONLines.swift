import Foundation

/// Appends rows as JSON objects, one per line, to the end of a file (`-` is standard output).
enum JSONLines {
  static func append(_ rows: [Row], to path: String?) throws {
    guard let path else { return }
    let text = rows.map { $0.jsonLine + "\n" }.joined()
    if path == "-" {
      print(text, terminator: "")
      return
    }
    guard let file = fopen(path, "a") else { throw EngineFailure("can't write \(path): errno \(errno)") }
    fputs(text, file)
    fclose(file)
  }
}
