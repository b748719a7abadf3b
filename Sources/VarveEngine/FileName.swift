/// The number of a file in the database directory. There is one counter for every kind, and numbers are not reused.
struct FileNumber: Hashable, Comparable, Sendable, CustomStringConvertible {
  let value: UInt64
  init(_ value: UInt64) { self.value = value }
  static func < (left: FileNumber, right: FileNumber) -> Bool { left.value < right.value }
  var description: String { "\(value)" }
}

/// Every kind of file that the engine names, and the format of the name.
///
/// | name | content |
/// |---|---|
/// | `LOCK` | who has the database open (`LockNote`); it is locked while an engine is open |
/// | `CURRENT` | the name of the current MANIFEST, and a newline |
/// | `CURRENT.tmp` | the next CURRENT, before its rename |
/// | `MANIFEST-000012` | a log of VersionEdits |
/// | `000012.log` | a segment of the write-ahead log |
/// | `000012.pool` | a log segment that waits to be reused |
/// | `000012.sst` | a table |
/// | `SHARED` | the state that an engine publishes to followers in other processes (`SharedPage`) |
/// | `RESERVE` | random bytes, whose space is given up when the disk is full (`SpaceReserve`) |
/// | `STATS` | statistics of the engine that has the database open (`PublishedStatistics`) |
/// | `0123456789abcdef.request` | a request of another process, or its answer (`InboxFileName`) |
///
/// Numbers have at least six digits, zero-padded. Another spelling of the same number is not a name of the engine,
/// because the engine must not delete a file that it could not have named.
enum FileName: Hashable, Sendable {
  case lock
  case current
  case currentTemporary
  case manifest(FileNumber)
  case log(FileNumber)
  case pooledLog(FileNumber)
  case table(FileNumber)
  case shared
  case statistics
  case reserve
  case inbox(InboxFileName)

  var name: String {
    switch self {
    case .lock: "LOCK"
    case .current: "CURRENT"
    case .currentTemporary: "CURRENT.tmp"
    case .manifest(let number): "MANIFEST-" + Self.digits(number)
    case .log(let number): Self.digits(number) + ".log"
    case .pooledLog(let number): Self.digits(number) + ".pool"
    case .table(let number): Self.digits(number) + ".sst"
    case .shared: "SHARED"
    case .statistics: "STATS"
    case .reserve: "RESERVE"
    case .inbox(let name): name.name
    }
  }

  var number: FileNumber? {
    switch self {
    case .lock, .current, .currentTemporary, .shared, .statistics, .reserve, .inbox: nil
    case .manifest(let number), .log(let number), .pooledLog(let number), .table(let number): number
    }
  }

  /// Parses a name. Returns `nil` for a name that the engine does not use.
  init?(_ name: String) {
    switch name {
    case "LOCK": self = .lock
    case "CURRENT": self = .current
    case "CURRENT.tmp": self = .currentTemporary
    case "SHARED": self = .shared
    case "STATS": self = .statistics
    case "RESERVE": self = .reserve
    default:
      if let name = InboxFileName(name) {
        self = .inbox(name)
        return
      }
      guard let parsed = Self.parseNumbered(name), parsed.name == name else { return nil }
      self = parsed
    }
  }

  private static func parseNumbered(_ name: String) -> FileName? {
    if name.hasPrefix("MANIFEST-") { return number(name.dropFirst(9)).map { .manifest($0) } }
    if name.hasSuffix(".log") { return number(name.dropLast(4)).map { .log($0) } }
    if name.hasSuffix(".pool") { return number(name.dropLast(5)).map { .pooledLog($0) } }
    if name.hasSuffix(".sst") { return number(name.dropLast(4)).map { .table($0) } }
    return nil
  }

  private static func number(_ digits: Substring) -> FileNumber? {
    guard digits.utf8.allSatisfy({ $0 >= 0x30 && $0 <= 0x39 }) else { return nil }
    return UInt64(digits).map { FileNumber($0) }
  }

  private static func digits(_ number: FileNumber) -> String {
    let text = String(number.value)
    return String(repeating: "0", count: max(0, 6 - text.utf8.count)) + text
  }
}
