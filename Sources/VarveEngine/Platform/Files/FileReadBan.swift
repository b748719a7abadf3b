internal import CVarve

/// Determines whether the calling thread may read files of tables.
///
/// The ban is a property of the thread instead of a parameter of reads. A read checks it only after it missed the
/// cache and is about to make a system call, so that a read from the cache pays nothing.
enum FileReadBan {
  // The values of `cvarve_file_read_ban`. A refusal is recorded, so that a caller that catches the error can't hide
  // it.
  private static let none: UInt8 = 0
  private static let inForce: UInt8 = 1
  private static let hasRefused: UInt8 = 2

  /// Throws `.wouldReadFile` if a ban is in force.
  @inline(__always)
  static func check() throws(EngineError) {
    guard cvarve_file_read_ban() == none else { throw refuse() }
  }

  @inline(never)
  private static func refuse() -> EngineError {
    cvarve_set_file_read_ban(hasRefused)
    return EngineError(.wouldReadFile, "read needs data that is not in memory")
  }

  /// Calls `body` under a ban. Returns nil if the ban refused a read, regardless of what `body` did with the error.
  static func run<Result>(_ body: () throws -> Result) throws -> Result? {
    let outer = cvarve_file_read_ban()
    cvarve_set_file_read_ban(inForce)
    defer { cvarve_set_file_read_ban(outer) }
    do {
      let result = try body()
      return cvarve_file_read_ban() == hasRefused ? nil : result
    } catch {
      guard cvarve_file_read_ban() == hasRefused else { throw error }
      return nil
    }
  }
}
