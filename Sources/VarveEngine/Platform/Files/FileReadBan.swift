internal import CVarve

/// Whether the calling thread may read files of tables.
///
/// It stands beside the thread, not among the parameters of a read: a read asks only where it has left the cache and
/// is about to make a system call, so that it costs a read nothing.
enum FileReadBan {
  // The numbers of `cvarve_file_read_ban`. A refusal is kept: the caller that catches the error can't hide it.
  private static let none: UInt8 = 0
  private static let inForce: UInt8 = 1
  private static let hasRefused: UInt8 = 2

  /// Throws `.wouldReadFile` where a ban is in force.
  @inline(__always)
  static func check() throws(EngineError) {
    guard cvarve_file_read_ban() == none else { throw refuse() }
  }

  @inline(never)
  private static func refuse() -> EngineError {
    cvarve_set_file_read_ban(hasRefused)
    return EngineError(.wouldReadFile, "read needs data that is not in memory")
  }

  /// Runs `body` under a ban. Nil where it refused a read, whatever `body` made of that.
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
